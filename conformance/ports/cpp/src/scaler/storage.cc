#include "scaler/storage.h"

#include <algorithm>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t chunkBytes = 8u << 20;
constexpr int chunksUnansweredMax = 8;          // STO-6
constexpr uint32_t firstChunkBytes = 64u << 10;  // all that wait may be answered at once
constexpr size_t sharedBytesMin = 256u << 10;    // below that a message costs less than a file

}  // namespace

ObjectStore::ObjectStore(zmq::context_t& context, PassOrNone pass, uint16_t role)
    : role_(role), link_(context, std::move(pass), [this](Hello::Builder hello) { introduce(hello); }) {}

void ObjectStore::introduce(Hello::Builder hello) const {
    hello.setRole(role_);
    if (!proof_) return;
    hello.initFeatures(1).set(0, "memfd");
    proof_->tell(hello.initMemoryFile());
}

void ObjectStore::use(const std::string& address) {
    if (address == link_.address()) return;
    if (isInUse()) {
        link_.leave(OK, "");
        beginAgain();
    }
    link_.dial(address, peerId_ = randomId());
}

void ObjectStore::put(const Id& object, const Owner& owner, std::shared_ptr<const Bytes> value, Stored stored) {
    uploads_.emplace(++lastNumber_, Upload{object, owner, std::move(value), std::move(stored)});
    advance();
}

void ObjectStore::get(const Id& object, const Owner& reader, Seconds wait, Fetched fetched) {
    downloads_.emplace(++lastNumber_, Download{object, reader, steadyNow() + wait, std::move(fetched), {}, std::nullopt});
    advance();
}

void ObjectStore::release(const Owner& owner, const std::vector<Id>& objects) {
    if (!objects.empty()) releases_.emplace(++lastNumber_, Letting{owner, objects});
    advance();
}

void ObjectStore::abandon(const Owner& owner, const Id& object) {
    for (auto at = uploads_.begin(); at != uploads_.end();) {
        at = at->second.object == object ? uploads_.erase(at) : std::next(at);
    }
    release(owner, {object});
}

void ObjectStore::leave() {
    advance();
    if (isInUse()) link_.leave(OK, "");
}

void ObjectStore::ask(Kind kind, uint64_t transfer, const std::function<void(Body::Builder, uint64_t)>& fill,
                      std::optional<Bytes> payload) {
    uint64_t request = ++lastNumber_;
    uint64_t seq = link_.send([&](Body::Builder body) { fill(body, request); }, std::move(payload));
    requests_.emplace(request, Request{kind, transfer, seq});
}

// Asks for as much as may be unanswered at a time.
void ObjectStore::advance() {
    if (refused_) return failAll();
    if (!link_.session().isOpen()) return;
    for (auto& [number, download] : downloads_) {
        bool isFirst = !download.totalBytes.has_value();
        if (download.isAsked || (!isFirst && chunksUnanswered_ >= chunksUnansweredMax)) continue;
        sendGet(number, download);
    }
    for (auto& [number, upload] : uploads_) {
        while (chunksUnanswered_ < chunksUnansweredMax && sendNext(number, upload)) {}
    }
    for (auto& [number, letting] : releases_) {
        if (!letting.isAsked) sendRelease(number, letting);
    }
}

// The whole value in a file, where the storage can open it: false otherwise.
bool ObjectStore::sendFile(uint64_t transfer, Upload& upload) {
    if (!isSharing() || !upload.mayShare || upload.value->size() < sharedBytesMin) return false;
    upload.file = SealedFile::holding(*upload.value);
    if (!upload.file) return false;
    upload.hasBegun = true;
    upload.sentBytes = upload.value->size();
    ++upload.unanswered;
    ++chunksUnanswered_;
    ask(Kind::put, transfer, [&](Body::Builder body, uint64_t request) {
        auto put = body.initPutShared();
        put.setRequestId(request);
        put.setObjectId(asData(upload.object));
        put.setOwner(asData(upload.owner.id));
        put.setGrant(asData(upload.owner.grant));
        put.setTotalBytes(upload.value->size());
        upload.file->tell(put.initFile());
    });
    return true;
}

bool ObjectStore::sendNext(uint64_t transfer, Upload& upload) {
    uint64_t total = upload.value->size(), offset = upload.sentBytes;
    if (upload.hasBegun && offset >= total) return false;
    if (!upload.hasBegun && sendFile(transfer, upload)) return true;
    Bytes chunk = upload.value->substr(offset, chunkBytes);
    upload.hasBegun = true;
    upload.sentBytes += chunk.size();
    ++upload.unanswered;
    ++chunksUnanswered_;
    auto fill = [&](Body::Builder body, uint64_t request) {
        auto put = body.initPut();
        put.setRequestId(request);
        put.setObjectId(asData(upload.object));
        put.setOwner(asData(upload.owner.id));
        put.setGrant(asData(upload.owner.grant));
        put.setTotalBytes(total);
        put.setOffset(offset);
    };
    ask(Kind::put, transfer, fill, std::move(chunk));
    return true;
}

// A first Get waits for the object and brings little; the rest is asked for when its size is known.
void ObjectStore::sendGet(uint64_t transfer, Download& download) {
    bool isFirst = !download.totalBytes.has_value();
    if (!isFirst) ++chunksUnanswered_;
    download.isAsked = true;
    ask(Kind::get, transfer, [&](Body::Builder body, uint64_t request) {
        auto get = body.initGet();
        get.setRequestId(request);
        get.setObjectId(asData(download.object));
        if (!download.reader.grant.empty()) get.setOwner(asData(download.reader.id));
        get.setGrant(asData(download.reader.grant));
        get.setOffset(download.value.size());
        get.setChunkBytes(isFirst ? firstChunkBytes : static_cast<uint32_t>(chunkBytes));
        get.setWaitSeconds(isFirst ? std::max(0.0, download.waitUntil - steadyNow()) : 0);
        get.setAcceptsShared(isFirst && download.mayShare && isSharing());
    });
}

void ObjectStore::sendRelease(uint64_t transfer, Letting& letting) {
    Bytes ids;
    for (const Id& object : letting.objects) ids += object;
    letting.isAsked = true;
    ask(Kind::release, transfer, [&](Body::Builder body, uint64_t request) {
        auto release = body.initRelease();
        release.setRequestId(request);
        release.setOwner(asData(letting.owner.id));
        release.setGrant(asData(letting.owner.grant));
        release.setIds(asData(ids));
    });
}

void ObjectStore::beginAgain() {
    requests_.clear();
    chunksUnanswered_ = 0;
    for (auto& [number, upload] : uploads_) {
        upload.sentBytes = 0;
        upload.unanswered = 0;
        upload.hasBegun = false;
        upload.file.reset();
    }
    for (auto& [number, download] : downloads_) {
        download.value.clear();
        download.totalBytes.reset();
        download.isAsked = false;
    }
    for (auto& [number, letting] : releases_) letting.isAsked = false;
}

void ObjectStore::step() {
    for (Event& event : link_.step()) {
        if (auto* message = std::get_if<Message>(&event)) {
            onMessage(*message);
        } else if (auto* lost = std::get_if<Lost>(&event)) {
            onLost(*lost);
        } else {
            bool isAnotherLife = !serverId_.empty() && serverId_ != link_.session().terms().serverId;
            serverId_ = link_.session().terms().serverId;
            if (isAnotherLife && restarted_) restarted_();
        }
    }
    advance();
}

void ObjectStore::onLost(const Lost& lost) {
    beginAgain();
    if (!lost.isOver) return;
    if (!lost.isRejected || lost.code == SHUTTING_DOWN) return link_.dialAgain(peerId_ = randomId());
    refused_ = lost;
    failAll();
}

// A storage that rejects us is not asked again (HSK-12), and nobody is left waiting.
void ObjectStore::failAll() {
    while (!uploads_.empty()) finishUpload(uploads_.begin()->first, refused_->code, refused_->text);
    while (!downloads_.empty()) finishDownload(downloads_.begin()->first, refused_->code, refused_->text);
    releases_.clear();
}

void ObjectStore::onMessage(const Message& message) {
    auto body = message.body();
    if (body.isObjectReply()) {
        auto reply = body.getObjectReply();
        answer(reply.getRequestId(), reply.getCode(), toString(reply.getText()));
    } else if (body.isValue()) {
        onValue(message);
    } else if (body.isSharedValue()) {
        onSharedValue(body.getSharedValue());
    } else if (body.isError()) {
        auto error = body.getError();
        auto isMeant = [&](const auto& request) { return request.second.seq == error.getRefSeq(); };
        auto found = std::find_if(requests_.begin(), requests_.end(), isMeant);
        if (found != requests_.end()) answer(found->first, error.getCode(), toString(error.getText()));
    } else {
        link_.refuse(Refusal{NOT_ALLOWED, "HSK-13", "a storage does not send that", false, message.seq()});
    }
}

void ObjectStore::answer(uint64_t requestId, uint16_t code, const std::string& text) {
    auto found = requests_.find(requestId);
    if (found == requests_.end()) return;
    Request request = found->second;
    requests_.erase(found);
    if (request.kind == Kind::get) return finishDownload(request.transfer, code, text);
    if (request.kind == Kind::release) {
        releases_.erase(request.transfer);
        return;
    }
    --chunksUnanswered_;
    auto upload = uploads_.find(request.transfer);
    if (upload == uploads_.end()) return;
    --upload->second.unanswered;
    if (upload->second.file && code == UNREADABLE_FILE) {  // then in chunks (STO-21)
        upload->second.file.reset();
        upload->second.mayShare = upload->second.hasBegun = false;
        upload->second.sentBytes = 0;
        return;
    }
    bool isComplete = upload->second.sentBytes >= upload->second.value->size() && upload->second.unanswered == 0;
    if (code != OK || isComplete) finishUpload(request.transfer, code, text);
}

std::map<uint64_t, ObjectStore::Download>::iterator ObjectStore::answered(uint64_t requestId) {
    auto found = requests_.find(requestId);
    if (found == requests_.end() || found->second.kind != Kind::get) return downloads_.end();
    uint64_t transfer = found->second.transfer;
    requests_.erase(found);
    return downloads_.find(transfer);
}

void ObjectStore::onValue(const Message& message) {
    auto value = message.body().getValue();
    auto at = answered(value.getRequestId());
    if (at == downloads_.end()) return;
    auto& [transfer, download] = *at;
    if (download.totalBytes) --chunksUnanswered_;
    download.isAsked = false;
    download.totalBytes = value.getTotalBytes();
    download.value += message.payload();
    bool isStuck = message.payload().empty() && download.value.size() < value.getTotalBytes();
    if (value.getOffset() + message.payload().size() != download.value.size() || isStuck) {
        return finishDownload(transfer, BAD_CHUNK, "the storage sent another part than was asked for");
    }
    if (download.value.size() >= value.getTotalBytes()) finishDownload(transfer, OK, "");
}

// The bytes are copied: the storage may let go of its file at any time.
void ObjectStore::onSharedValue(SharedValue::Reader value) {
    auto at = answered(value.getRequestId());
    if (at == downloads_.end()) return;
    auto& [transfer, download] = *at;
    download.isAsked = false;
    auto bytes = download.mayShare ? readSealed(value.getFile(), value.getTotalBytes()) : std::nullopt;
    download.mayShare = false;
    if (!bytes) return;  // it is asked for again (STO-23)
    download.value = std::move(*bytes);
    finishDownload(transfer, OK, "");
}

void ObjectStore::finishUpload(uint64_t transfer, uint16_t code, const std::string& text) {
    Stored stored = std::move(uploads_.at(transfer).stored);
    uploads_.erase(transfer);
    if (stored) stored(code, text);
}

void ObjectStore::finishDownload(uint64_t transfer, uint16_t code, const std::string& text) {
    auto found = downloads_.find(transfer);
    if (found == downloads_.end()) return;
    Download download = std::move(found->second);
    if (download.totalBytes && download.isAsked) --chunksUnanswered_;
    downloads_.erase(found);
    if (download.fetched) download.fetched(code, text, std::move(download.value));
}

std::string storageBeside(const std::string& schedulerAddress) {
    if (schedulerAddress.rfind("ipc://", 0) == 0) return schedulerAddress + "-storage";
    size_t port = schedulerAddress.rfind(':') + 1;
    return schedulerAddress.substr(0, port) + std::to_string(std::stoi(schedulerAddress.substr(port)) + 1);
}

}  // namespace scaler

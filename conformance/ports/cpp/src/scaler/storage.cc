#include "scaler/storage.h"

#include <algorithm>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t chunkBytes = 8u << 20;
constexpr int chunksUnansweredMax = 8;          // STO-6
constexpr uint32_t firstChunkBytes = 64u << 10;  // all that wait may be answered at once

}  // namespace

ObjectStore::ObjectStore(zmq::context_t& context, PassOrNone pass, uint16_t role)
    : link_(context, std::move(pass), [role](Hello::Builder hello) { hello.setRole(role); }) {}

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
        while (chunksUnanswered_ < chunksUnansweredMax && sendChunk(number, upload)) {}
    }
    for (auto& [number, letting] : releases_) {
        if (!letting.isAsked) sendRelease(number, letting);
    }
}

bool ObjectStore::sendChunk(uint64_t transfer, Upload& upload) {
    uint64_t total = upload.value->size(), offset = upload.sentBytes;
    if (upload.hasBegun && offset >= total) return false;
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
    bool isComplete = upload->second.sentBytes >= upload->second.value->size() && upload->second.unanswered == 0;
    if (code != OK || isComplete) finishUpload(request.transfer, code, text);
}

void ObjectStore::onValue(const Message& message) {
    auto value = message.body().getValue();
    auto found = requests_.find(value.getRequestId());
    if (found == requests_.end() || found->second.kind != Kind::get) return;
    uint64_t transfer = found->second.transfer;
    requests_.erase(found);
    auto at = downloads_.find(transfer);
    if (at == downloads_.end()) return;
    Download& download = at->second;
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

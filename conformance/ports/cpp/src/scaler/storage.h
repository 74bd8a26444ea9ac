// Objects by id, in chunks. Spec chapter 12 (STO).
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "scaler/link.h"
#include "scaler/memory_file.h"

namespace scaler {

// In whose name something is stored or read, and what proves that we may name it: empty in an insecure cluster (STO-32).
struct Owner {
    Id id;
    Bytes grant;
};

// Asks for objects and stores them, over one session. A lost session or a restarted storage costs nothing but time: what
// is unfinished is asked again (STO-17). A storage of this host shares large values in memory files, where it can.
class ObjectStore : public Pollable {
public:
    // `code` zero: done. Called once for each request, from `step`.
    using Stored = std::function<void(uint16_t code, const std::string& text)>;
    using Fetched = std::function<void(uint16_t code, const std::string& text, Bytes value)>;

    ObjectStore(zmq::context_t& context, PassOrNone pass, uint16_t role);

    // Another address than before is another storage, which has nothing yet.
    void use(const std::string& address);
    bool isIdle() const { return uploads_.empty() && downloads_.empty() && releases_.empty(); }
    bool isInUse() const { return !link_.address().empty(); }
    void put(const Id& object, const Owner& owner, std::shared_ptr<const Bytes> value, Stored stored);
    void get(const Id& object, const Owner& reader, Seconds wait, Fetched fetched);
    void release(const Owner& owner, const std::vector<Id>& objects);
    // As `release`, and whatever of them is still on its way there is not sent to its end; nobody is told.
    void abandon(const Owner& owner, const Id& object);
    void leave();
    // Called when another life of the storage answers: all objects are gone (CLI-13).
    void whenRestarted(std::function<void()> restarted) { restarted_ = std::move(restarted); }

    void step();
    void addTo(std::vector<zmq::pollitem_t>& items) override { link_.addTo(items); }
    Seconds nextDeadline() const override { return link_.nextDeadline(); }

private:
    struct Upload {
        Id object;
        Owner owner;
        std::shared_ptr<const Bytes> value;
        Stored stored;
        uint64_t sentBytes = 0;
        int unanswered = 0;
        bool hasBegun = false;
        bool mayShare = true;                          // until the storage could not open the file
        std::optional<SealedFile> file = std::nullopt;  // that the storage is asked to open
    };
    struct Download {
        Id object;
        Owner reader;
        Seconds waitUntil;
        Fetched fetched;
        Bytes value;
        std::optional<uint64_t> totalBytes;
        bool isAsked = false;
        bool mayShare = true;  // until a file could not be opened (STO-23)
    };
    struct Letting {
        Owner owner;
        std::vector<Id> objects;
        bool isAsked = false;
    };
    enum class Kind { put, get, release };
    struct Request {
        Kind kind;
        uint64_t transfer;
        uint64_t seq;  // an Error refers to it
    };

    void advance();
    bool isSharing() const { return link_.session().terms().has("memfd"); }
    void introduce(Hello::Builder hello) const;
    bool sendNext(uint64_t transfer, Upload& upload);
    bool sendFile(uint64_t transfer, Upload& upload);
    void sendGet(uint64_t transfer, Download& download);
    void sendRelease(uint64_t transfer, Letting& letting);
    void beginAgain();
    void onMessage(const Message& message);
    void onLost(const Lost& lost);
    void failAll();
    void answer(uint64_t requestId, uint16_t code, const std::string& text);
    // Forgets a request of a download, and finds that download; the end if there is none.
    std::map<uint64_t, Download>::iterator answered(uint64_t requestId);
    void onValue(const Message& message);
    void onSharedValue(SharedValue::Reader value);
    void finishUpload(uint64_t transfer, uint16_t code, const std::string& text);
    void finishDownload(uint64_t transfer, uint16_t code, const std::string& text);
    void ask(Kind kind, uint64_t transfer, const std::function<void(Body::Builder, uint64_t)>& fill,
             std::optional<Bytes> payload = std::nullopt);

    uint16_t role_;
    std::optional<SealedFile> proof_ = SealedFile::holding("");  // of being on the storage's host (HSK-25)
    Link link_;
    Id peerId_ = randomId();
    Id serverId_;
    std::optional<Lost> refused_;  // it will have nothing to do with us: all requests fail
    std::map<uint64_t, Upload> uploads_;  // in the order of asking
    std::map<uint64_t, Download> downloads_;
    std::unordered_map<uint64_t, Request> requests_;
    std::map<uint64_t, Letting> releases_;
    uint64_t lastNumber_ = 0;
    int chunksUnanswered_ = 0;
    std::function<void()> restarted_;
};

// Where the storage is when the scheduler's Welcome does not say: one port above the scheduler's (HSK-18). Takes what `checkAddress` accepts.
std::string storageBeside(const std::string& schedulerAddress);

}  // namespace scaler

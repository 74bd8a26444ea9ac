#include "worker/presenting.h"

#include <utility>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t keptBytesMax = size_t{32} << 20;
constexpr size_t keptTasksMax = 65536;
constexpr size_t envelopeSpare = 1024;  // of an envelope, for everything but columns
constexpr size_t rowBytes = idBytes + 2 + 1 + idBytes;

size_t bytesOf(const std::vector<KeptEnd>& rows) {
    size_t bytes = 0;
    for (const KeptEnd& row : rows) bytes += sizeof(KeptEnd) + row.result.value.size() + row.owner.grant.size();
    return bytes;
}

}  // namespace

// What is kept of the session before is taken by then, or dropped.
void KeptEnds::beginSession(bool isKeeping) {
    firstNumber_ = 1;
    isKeeping_ = isKeeping;
}

void KeptEnds::keep(std::vector<KeptEnd> rows) {
    if (!isKeeping_) return;
    taskCount_ += rows.size();
    bytes_ += bytesOf(rows);
    messages_.push_back(std::move(rows));
    while (taskCount_ > keptTasksMax || bytes_ > keptBytesMax) dropFirst();
}

void KeptEnds::dropFirst() {
    taskCount_ -= messages_.front().size();
    bytes_ -= bytesOf(messages_.front());
    messages_.pop_front();
    ++firstNumber_;
}

void KeptEnds::delivered(uint64_t resultsCount) {
    while (!messages_.empty() && firstNumber_ <= resultsCount) dropFirst();
}

std::vector<KeptEnd> KeptEnds::takeAll() {
    std::vector<KeptEnd> ends;
    for (std::vector<KeptEnd>& rows : messages_) {
        for (KeptEnd& row : rows) {
            if (row.result.status != STATUS_CANCELED) ends.push_back(std::move(row));
        }
    }
    drop();
    return ends;
}

void KeptEnds::drop() {
    messages_.clear();
    taskCount_ = bytes_ = 0;
    firstNumber_ = 1;
}

void sendHoldings(Link& link, const std::vector<Presented>& rows, uint32_t workerCount) {
    const Limits& limits = link.session().terms().limits;
    size_t next = 0;
    do {
        Bytes ids, attempts, states, clients, grants, grantSizes;
        std::unordered_map<Id, bool> named;
        size_t used = envelopeSpare, count = 0;
        for (; next < rows.size() && count < limits.batchTasks; ++next, ++count) {
            const Presented& row = rows[next];
            bool isNew = named.count(row.owner.id) == 0;
            used += rowBytes + (isNew ? row.owner.grant.size() + 1 : 0);
            if (used > limits.envelopeBytes && count > 0) break;
            ids += row.task;
            append<uint16_t>(attempts, row.attempt);
            append<uint8_t>(states, row.state);
            clients += row.owner.id;
            if (!isNew) continue;
            named[row.owner.id] = true;
            grants += row.owner.grant;
            append<uint8_t>(grantSizes, static_cast<uint8_t>(row.owner.grant.size()));
        }
        link.send([&](Body::Builder body) {
            auto holding = body.initHolding();
            holding.setIds(asData(ids));
            holding.setAttempts(asData(attempts));
            holding.setStates(asData(states));
            holding.setClients(asData(clients));
            holding.setIsLast(next == rows.size());
            holding.setGrants(asData(grants));
            if (!grants.empty()) holding.setGrantSizes(asData(grantSizes));
            holding.setWorkerCount(workerCount);
        });
    } while (next < rows.size());
}

}  // namespace scaler

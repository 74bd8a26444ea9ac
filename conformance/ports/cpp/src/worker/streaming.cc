#include "worker/streaming.h"

#include <algorithm>

#include "constants.capnp.h"
#include "scaler/streams.h"

namespace scaler {

namespace {

constexpr double atOnce = 0.005;   // a fast client has stored its credit by then: no place need be lent for that
constexpr double creditWait = 5;  // then the mark is looked at: the client may have left (WRK-60)

}  // namespace

StreamWriter::StreamWriter(Surroundings& surroundings, Id stream, uint64_t window)
    : surroundings_(surroundings), stream_(std::move(stream)), window_(window), step_(std::max<uint64_t>(1, window / 2)) {
    if (stream_.size() != idBytes) throw Raised("ValueError", "the id of a stream has 16 bytes");
    if (window < 1 || window > streamWindowMax) throw Raised("ValueError", "the window of a stream is from 1 to 65,536");
    Id begun = streamObjectId(stream_, StreamObject::begun);
    Bytes mark = randomId();
    surroundings_.put(begun, mark, PutOver::ignore);
    if (surroundings_.get(begun, 0) != mark) {
        throw Raised("WorkerLost", "the worker that ran this stream was lost, and a stream does not begin again", WORKER_LOST);
    }
}

void StreamWriter::write(const Bytes& value) {
    if (count_ >= window_ + credits_ * step_) waitForCredit();
    surroundings_.put(streamObjectId(stream_, StreamObject::value, count_), value, PutOver::raise);
    ++count_;
}

// The task lends its place meanwhile: its client may wait for another task before it takes the next value.
void StreamWriter::waitForCredit() {
    Id credit = streamObjectId(stream_, StreamObject::credit, credits_ + 1);
    if (!surroundings_.get(credit, atOnce)) {
        surroundings_.block();
        while (!surroundings_.get(credit, creditWait)) checkMark();
        surroundings_.unblock();
    }
    ++credits_;
}

void StreamWriter::checkMark() {
    if (surroundings_.get(streamObjectId(stream_, StreamObject::begun), 0)) return;
    std::vector<Id> unread;
    for (uint64_t number = credits_ * step_; number < count_; ++number) {
        unread.push_back(streamObjectId(stream_, StreamObject::value, number));
    }
    surroundings_.release(unread);
    throw Raised("StreamLeft", "the client has left the stream, and has taken no further value");
}

}  // namespace scaler

// A function that streams, in its processor. Spec chapter 07, "Streams".
#pragma once

#include "worker/functions.h"

namespace scaler {

class StreamWriter {
public:
    // Leaves the mark of the stream, or raises WORKER_LOST if it has begun elsewhere (WRK-60).
    StreamWriter(Surroundings& surroundings, Id stream, uint64_t window);

    // Stores the next value, as soon as the client has taken enough of those before (WRK-58, WRK-59).
    void write(const Bytes& value);

private:
    void waitForCredit();
    void checkMark();

    Surroundings& surroundings_;
    Id stream_;
    uint64_t window_, step_;
    uint64_t count_ = 0, credits_ = 0;  // values that are stored, credits that have come
};

}  // namespace scaler

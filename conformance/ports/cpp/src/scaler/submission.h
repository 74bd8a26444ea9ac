// Calls on their way into a Submit. Spec chapters 05 (CLI) and 08 (BAT).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "scaler/envelope.h"

namespace scaler {

struct Capability {
    std::string name;
    int64_t amount = -1;
    bool operator==(const Capability& other) const { return name == other.name && amount == other.amount; }
};

// What all calls of one batch have in common.
struct CallOptions {
    int32_t priority = 0;
    double timeoutSeconds = 0;
    uint16_t retries = 0;
    uint32_t flags = 0;
    std::vector<Capability> capabilities;
    bool operator==(const CallOptions& other) const {
        return std::tie(priority, timeoutSeconds, retries, flags, capabilities) ==
               std::tie(other.priority, other.timeoutSeconds, other.retries, other.flags, other.capabilities);
    }
};

// Where a client stands: outside of all tasks, or inside one (CLI-9).
struct Standing {
    Id parentTask;
    uint16_t depth = 0;
    Id resultSalt = randomId();  // no other peer can compute the ids of its results' objects (OWN-14)
};

struct Argument {
    uint8_t kind;
    Bytes bytes;  // the value, or the id of an object
};

// One Submit in the making: RAW calls with equal options.
class Submission {
public:
    Submission(CallOptions options, Standing standing, const Limits& limits)
        : options_(std::move(options)), standing_(std::move(standing)), limits_(limits) {}

    // False when the batch is full: send it, and begin another (CLI-4). A call that an empty one refuses fits into none.
    bool add(const Id& task, const Id& function, const std::vector<Argument>& arguments, const CallOptions& options);
    Fill fill() const;
    Bytes takePayload() { return std::move(payload_); }

private:
    CallOptions options_;
    Standing standing_;
    const Limits& limits_;
    size_t count_ = 0;
    std::map<Id, uint16_t> indexes_;
    Bytes functions_, ids_, functionIndexes_, partCounts_, partKinds_, partSizes_, payload_;
};

}  // namespace scaler

// What a WorkerStatus tells of the tasks that have ended since the one before: samples of them while a monitor watches
// (MON-11), and counts by function always (WRK-54, WRK-55).
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <random>
#include <vector>

#include "scaler/batch.h"
#include "scaler/session.h"

namespace scaler {

// A task in a processor.
struct Run {
    Seconds begunAt = 0;  // zero: it has not begun
    Seconds endedAt = 0;  // zero: not yet
    pid_t processId = 0;
    uint64_t processorNs = 0;
};

class Tally {
public:
    void ended(const Task& task, const Run& run, uint8_t status);
    // From now on; zero: none, and nothing is counted for them.
    void sampleUpTo(uint32_t sampleLimit);
    // Tells all of it, and begins anew.
    void fill(WorkerStatus::Builder status, Seconds now);

private:
    static constexpr size_t bucketCount = 61;
    struct Function {
        uint64_t runUs = 0, processorUs = 0;
        std::array<uint32_t, bucketCount> buckets = {};
    };
    struct Sample {
        uint64_t number;  // of the task, in the order in which they ended
        Id task, function;
        Seconds begunAt;
        uint64_t runUs;
        pid_t processId;
        uint8_t status;
    };
    static size_t bucketOf(uint64_t microseconds);
    void sample(Sample sample);

    std::map<Id, Function> functions_;
    uint32_t sampleLimit_ = 0;
    uint64_t endedCount_ = 0;
    std::vector<Sample> samples_;
    std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace scaler

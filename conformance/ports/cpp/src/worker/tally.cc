#include "worker/tally.h"

#include <algorithm>

namespace scaler {

namespace {

constexpr size_t functionsMax = 256;       // named in one WorkerStatus (WRK-55)
constexpr uint32_t samplesMax = 4096;      // whatever is asked for: a WorkerStatus has to fit into an envelope

uint64_t microseconds(Seconds duration) { return static_cast<uint64_t>(std::max(0.0, duration) * 1e6); }

}  // namespace

// Two for each doubling, from 100 microseconds on; the last one has all longer ones (WRK-54).
size_t Tally::bucketOf(uint64_t microseconds) {
    for (size_t doubling = 0; 2 * doubling + 1 < bucketCount; ++doubling) {
        if (microseconds <= uint64_t{100} << doubling) return 2 * doubling;
        if (microseconds <= uint64_t{150} << doubling) return 2 * doubling + 1;
    }
    return bucketCount - 1;
}

void Tally::ended(const Task& task, const Run& run, uint8_t status) {
    uint64_t runUs = microseconds(run.endedAt - run.begunAt);
    bool isNamed = functions_.count(task.function) > 0 || functions_.size() < functionsMax;
    Function& function = functions_[isNamed ? task.function : Id(idBytes, '\0')];
    function.runUs += runUs;
    function.processorUs += run.processorNs / 1000;
    ++function.buckets[bucketOf(runUs)];
    if (sampleLimit_ == 0) return;
    sample(Sample{++endedCount_, task.id, task.function, run.begunAt, runUs, run.processId, status});
}

// Each of them is as likely to be told as any other, however many there are (MON-11).
void Tally::sample(Sample sample) {
    if (samples_.size() < sampleLimit_) return samples_.push_back(std::move(sample));
    uint64_t place = std::uniform_int_distribution<uint64_t>(0, endedCount_ - 1)(random_);
    if (place < samples_.size()) samples_[place] = std::move(sample);
}

void Tally::sampleUpTo(uint32_t sampleLimit) {
    sampleLimit_ = std::min(sampleLimit, samplesMax);
    endedCount_ = 0;
    samples_.clear();
}

void Tally::fill(WorkerStatus::Builder status, Seconds now) {
    Bytes functions, buckets, samples;
    uint16_t row = 0;
    for (const auto& [id, function] : functions_) {
        functions += id;
        append<uint64_t>(functions, function.runUs);
        append<uint64_t>(functions, function.processorUs);
        for (size_t bucket = 0; bucket < bucketCount; ++bucket) {
            if (function.buckets[bucket] == 0) continue;
            append<uint16_t>(buckets, row);
            append<uint16_t>(buckets, static_cast<uint16_t>(bucket));
            append<uint32_t>(buckets, function.buckets[bucket]);
        }
        ++row;
    }
    std::sort(samples_.begin(), samples_.end(), [](const Sample& one, const Sample& other) { return one.number < other.number; });
    for (const Sample& one : samples_) {
        samples += one.task + one.function;
        append<uint64_t>(samples, microseconds(now - one.begunAt));
        append<uint64_t>(samples, one.runUs);
        append<uint32_t>(samples, static_cast<uint32_t>(one.processId));
        append<uint32_t>(samples, one.status);
    }
    status.setFunctions(asData(functions));
    status.setFunctionBuckets(asData(buckets));
    status.setEndedCount(endedCount_);
    status.setSamples(asData(samples));
    functions_.clear();
    endedCount_ = 0;
    samples_.clear();
}

}  // namespace scaler

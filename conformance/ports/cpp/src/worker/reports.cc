#include "worker/reports.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <fstream>

#include "constants.capnp.h"

namespace scaler {

void Reports::end(Result result, bool isProfiled) {
    results_.push_back(std::move(result));
    hasProfiles_ = hasProfiles_ || isProfiled;
}

void Reports::answerCancel(const Id& task, uint8_t outcome) { answers_.emplace_back(task, outcome); }

void Reports::giveBack(const std::vector<Id>& tasks, bool isRecallAnswer) {
    returning_.push_back(Returning{tasks, isRecallAnswer});
}

void Reports::send(Link& link) {
    const Limits& limits = link.session().terms().limits;
    for (size_t first = 0; first < results_.size();) {
        ResultsMessage message = writeResults(results_, first, hasProfiles_, limits);
        link.send(message.fill, std::move(message.payload));
    }
    if (!answers_.empty()) {
        Bytes ids, outcomes;
        for (const auto& [task, outcome] : answers_) {
            ids += task;
            append<uint8_t>(outcomes, outcome);
        }
        link.send([&](Body::Builder body) {
            auto reply = body.initCancelReply();
            reply.setIds(asData(ids));
            reply.setOutcomes(asData(outcomes));
        });
    }
    for (const Returning& one : returning_) {
        Bytes ids;
        for (const Id& task : one.tasks) ids += task;
        link.send([&](Body::Builder body) {
            auto returned = body.initReturned();
            returned.setIds(asData(ids));
            returned.setIsRecallAnswer(one.isRecallAnswer);
        });
    }
    drop();
}

void Reports::drop() {
    results_.clear();
    hasProfiles_ = false;
    answers_.clear();
    returning_.clear();
}

uint64_t residentBytes(int processId) {
    std::ifstream statm("/proc/" + std::to_string(processId) + "/statm");
    uint64_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t freeHostBytes() {
    struct sysinfo info {};
    sysinfo(&info);
    return static_cast<uint64_t>(info.freeram) * info.mem_unit;
}

double processorSecondsOfAgent() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace scaler

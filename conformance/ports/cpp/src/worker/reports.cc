#include "worker/reports.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>

#include "constants.capnp.h"

namespace scaler {

void Reports::end(KeptEnd end) { ends_.push_back(std::move(end)); }

void Reports::keepResults() {
    std::vector<KeptEnd> ends = std::move(ends_);
    drop();
    for (KeptEnd& end : ends) {
        if (end.result.status != STATUS_CANCELED) ends_.push_back(std::move(end));
    }
}

const std::vector<KeptEnd>& Reports::dropSuperseded(const std::unordered_map<Id, uint64_t>& held) {
    std::unordered_map<Id, uint16_t> latest;
    for (const KeptEnd& end : ends_) latest[end.result.id] = std::max(latest[end.result.id], end.result.attempt);
    auto isSuperseded = [&](const KeptEnd& end) {
        auto found = latest.find(end.result.id);
        bool isLatest = found != latest.end() && found->second == end.result.attempt && held.count(end.result.id) == 0;
        if (isLatest) latest.erase(found);
        return !isLatest;
    };
    ends_.erase(std::remove_if(ends_.begin(), ends_.end(), isSuperseded), ends_.end());
    return ends_;
}

void Reports::answerCancel(const Id& task, uint8_t outcome) { answers_.emplace_back(task, outcome); }

void Reports::giveBack(const std::vector<Id>& tasks, bool isRecallAnswer) {
    returning_.push_back(Returning{tasks, isRecallAnswer});
}

void Reports::send(Link& link, KeptEnds& ends) {
    const Limits& limits = link.session().terms().limits;
    bool hasProfiles = std::any_of(ends_.begin(), ends_.end(), [](const KeptEnd& one) { return one.isProfiled; });
    std::vector<Result> results;
    for (const KeptEnd& end : ends_) results.push_back(end.result);
    for (size_t first = 0; first < results.size();) {
        auto begin = ends_.begin() + static_cast<std::ptrdiff_t>(first);
        ResultsMessage message = writeResults(results, first, hasProfiles, limits);
        link.send(message.fill, std::move(message.payload));
        auto end = ends_.begin() + static_cast<std::ptrdiff_t>(first);
        ends.keep(std::vector<KeptEnd>(std::make_move_iterator(begin), std::make_move_iterator(end)));
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
    ends_.clear();
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

std::string describeProcess(int processId) {
    std::ifstream file("/proc/" + std::to_string(processId) + "/stat");
    std::string stat((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));  // the name may have spaces in it
    char state = '?';
    std::string skipped;
    uint64_t userTicks = 0, systemTicks = 0;
    fields >> state;
    for (int field = 4; field < 14; ++field) fields >> skipped;
    fields >> userTicks >> systemTicks;
    std::ostringstream text;
    text << "process " << processId << ", state " << state << ", " << std::fixed << std::setprecision(2)
         << static_cast<double>(userTicks + systemTicks) / static_cast<double>(sysconf(_SC_CLK_TCK))
         << " s of processor time, " << (residentBytes(processId) >> 20) << " MiB";
    return text.str();
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

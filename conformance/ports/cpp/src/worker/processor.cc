#include "worker/processor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "constants.capnp.h"
#include "scaler/client.h"
#include "worker/channel.h"
#include "worker/functions.h"

namespace scaler {

namespace {

volatile sig_atomic_t wasInterrupted = 0;

void onInterrupt(int) { wasInterrupted = 1; }

struct Usage {
    uint64_t processorNs;
    uint64_t peakBytes;
};

Usage usageNow() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto nanoseconds = [](const timeval& time) {
        return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_usec) * 1000;
    };
    return Usage{nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime), static_cast<uint64_t>(usage.ru_maxrss) * 1024};
}

// A child of the running task is submitted by a client of its own, which names its parent (CLI-9).
class Inside : public Surroundings {
public:
    Inside(const Json& call, Channel& channel) : call_(call), channel_(channel) {}

    bool isInterrupted() const override { return wasInterrupted != 0; }

    Bytes callElsewhere(const std::string& function, std::vector<Bytes> arguments) override {
        block();
        Outcome outcome = runChild(function, std::move(arguments));
        unblock();
        if (outcome.status != STATUS_SUCCESS) throw Raised("ChildFailed", function + ": " + outcome.failure.message);
        return outcome.value;
    }

    void put(const Id& object, const Bytes& value, PutOver over) override {
        Json answer = ask({{"kind", "put"}, {"object", binary(object)}, {"value", binary(value)}});
        if (answer["code"] == EXISTS && over == PutOver::ignore) return;
        if (answer["code"] != OK) throw refusedBy(answer);
    }

    std::optional<Bytes> get(const Id& object, double waitSeconds) override {
        Json answer = ask({{"kind", "get"}, {"object", binary(object)}, {"wait", waitSeconds}});
        if (answer["code"] == NO_SUCH_OBJECT) return std::nullopt;
        if (answer["code"] != OK) throw refusedBy(answer);
        return bytesOf(answer["value"]);
    }

    void release(const std::vector<Id>& objects) override {
        Json ids = Json::array();
        for (const Id& object : objects) ids.push_back(binary(object));
        ask({{"kind", "release"}, {"objects", std::move(ids)}});
    }

    void block() override { channel_.writeAll({{"kind", "blocked"}}); }

    void unblock() override {
        channel_.writeAll({{"kind", "unblocked"}});
        channel_.waitForNext();  // "go": there is a place again
        if (isInterrupted()) throw Interrupted();
    }

private:
    // The agent has the sessions, with the storage too, and answers each question once.
    Json ask(const Json& question) {
        if (isInterrupted()) throw Interrupted();
        channel_.writeAll(question);
        auto answer = channel_.waitForNext();
        if (!answer || (*answer)["code"] == TASK_CANCELED) throw Interrupted();
        return *answer;
    }

    static Raised refusedBy(const Json& answer) {
        return Raised("StorageError", "the storage refuses an object: " + answer["text"].get<std::string>());
    }

    Outcome runChild(const std::string& function, std::vector<Bytes> arguments) {
        zmq::context_t context;
        Client::Options options;
        options.standing.parentTask = bytesOf(call_["task"]);
        options.standing.depth = static_cast<uint16_t>(call_["depth"].get<int>() + 1);
        options.pass = findPass();
        Client client(context, options);
        client.connect(call_["scheduler"]);
        client.submit(Call{function, std::move(arguments), {}});
        Outcome outcome{};
        while (client.unfinishedCount() > 0 && !isInterrupted()) {
            for (Happening& happening : client.step()) {
                if (auto* end = std::get_if<Outcome>(&happening)) outcome = std::move(*end);
            }
            Seconds longest = client.unfinishedCount() > 0 ? std::min(0.1, client.nextDeadline() - steadyNow()) : 0;
            waitForAny(client.pollables(), std::max(0.0, longest));
        }
        client.leave();
        return outcome;
    }

    const Json& call_;
    Channel& channel_;
};

Json run(const Json& call, Channel& channel) {
    std::vector<Bytes> arguments;
    for (const Json& argument : call["arguments"]) arguments.push_back(bytesOf(argument));
    Inside inside(call, channel);
    const Function* function = findFunction(call["function"]);
    Usage before = usageNow();
    auto begin = std::chrono::steady_clock::now();
    Json end = {{"kind", "ended"}};
    try {
        if (call["keywords"] != 0) throw Raised("TypeError", "functions of this worker have no named arguments");
        end["value"] = binary((*function)(arguments, inside));
        end["status"] = STATUS_SUCCESS;
    } catch (const Interrupted&) {
        end["status"] = STATUS_CANCELED;
    } catch (const Raised& raised) {
        end["status"] = STATUS_FAILED;
        end["code"] = raised.code;
        end["typeName"] = raised.typeName;
        end["message"] = raised.what();
    } catch (const std::exception& error) {
        end["status"] = STATUS_FAILED;
        end["typeName"] = "std::exception";
        end["message"] = asText(error.what());
    }
    auto duration = std::chrono::steady_clock::now() - begin;
    Usage after = usageNow();
    end["durationNs"] = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
    end["processorNs"] = after.processorNs - before.processorNs;
    end["peakBytes"] = after.peakBytes - before.peakBytes;
    return end;
}

}  // namespace

int runProcessor() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sigaction action {};
    action.sa_handler = onInterrupt;
    sigaction(SIGINT, &action, nullptr);
    signal(SIGTERM, SIG_IGN);  // the agent is asked to end, and decides what becomes of the task
    Channel channel(processorChannelFd);
    while (auto call = channel.waitForNext()) {
        wasInterrupted = 0;  // of a task that had ended before it was hit
        Json end = run(*call, channel);
        std::fflush(stdout);
        std::fflush(stderr);
        channel.writeAll(end);
    }
    return 0;
}

}  // namespace scaler

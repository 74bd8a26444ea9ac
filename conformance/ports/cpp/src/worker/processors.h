// The processors of a worker: started when needed, replaced when they die.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "scaler/link.h"
#include "worker/channel.h"

namespace scaler {

struct Processor {
    pid_t pid;
    Channel channel;
    int outputs[2];  // what it prints: standard output and standard error
    Bytes lines[2];  // read and not passed on yet
    uint64_t task = 0;       // what it runs, by the agent's own number; zero: nothing
    bool isDoomed = false;   // killed, and not buried yet
};

// A frame of its own, what it has printed, or its death.
struct ProcessorEvent {
    enum class Kind { frame, output, died } kind;
    std::shared_ptr<Processor> processor;
    Json frame = {};
    uint16_t stream = 0;
    std::string text = {};
    int exitCode = 0;  // of one that died: its status, or minus the signal
    uint64_t peakBytes = 0;
};

class Processors : public Pollable {
public:
    ~Processors() override;

    // One that runs nothing, started now if need be.
    std::shared_ptr<Processor> takeIdle();
    size_t count() const { return all_.size(); }
    const std::vector<std::shared_ptr<Processor>>& all() const { return all_; }
    void send(Processor& processor, const Json& frame);
    void interrupt(const Processor& processor) const;
    void kill(Processor& processor);
    bool hasDoomed() const;

    std::vector<ProcessorEvent> step();
    void addTo(std::vector<zmq::pollitem_t>& items) override;
    Seconds nextDeadline() const override;

private:
    std::shared_ptr<Processor> start();
    void readOutput(const std::shared_ptr<Processor>& processor, std::vector<ProcessorEvent>& events, bool isAtEnd);
    ProcessorEvent bury(const std::shared_ptr<Processor>& processor) const;

    std::vector<std::shared_ptr<Processor>> all_;
};

}  // namespace scaler

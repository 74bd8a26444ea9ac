#include "worker/processors.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "worker/processor.h"

namespace scaler {

namespace {

constexpr size_t textBytesMax = 512;  // of one piece of output: below every limit for what rides inline

void check(bool isDone, const char* what) {
    if (!isDone) throw std::system_error(errno, std::generic_category(), what);
}

// The longest beginning of at most `most` bytes that does not end within a character.
size_t wholeCharacters(const Bytes& text, size_t most) {
    size_t end = std::min(text.size(), most);
    if (end == text.size()) return end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) >> 6) == 2) --end;
    return end == 0 ? std::min(text.size(), most) : end;
}

}  // namespace

Processors::~Processors() {
    for (const auto& processor : all_) {
        ::kill(processor->pid, SIGKILL);
        bury(processor);
    }
}

std::shared_ptr<Processor> Processors::takeIdle() {
    for (const auto& processor : all_) {
        if (processor->task == 0 && !processor->isDoomed) return processor;
    }
    return start();
}

std::shared_ptr<Processor> Processors::start() {
    int channel[2], output[2], errors[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) == 0, "socketpair");
    check(pipe2(output, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(errors, O_CLOEXEC | O_NONBLOCK) == 0, "pipe");
    fcntl(output[1], F_SETFL, 0);  // the processor's end waits, as programs expect of their output
    fcntl(errors[1], F_SETFL, 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
    posix_spawn_file_actions_adddup2(&actions, channel[1], processorChannelFd);
    char name[] = "scaler_port_processor", option[] = "--processor";
    char* arguments[] = {name, option, nullptr};
    posix_spawnattr_t attributes;  // the agent has blocked the signals that end it; its processors have not
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    errno = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    check(errno == 0, "cannot start a processor");
    close(channel[1]);
    close(output[1]);
    close(errors[1]);
    all_.push_back(std::make_shared<Processor>(Processor{pid, Channel(channel[0]), {output[0], errors[0]}, {}}));
    return all_.back();
}

void Processors::send(Processor& processor, const Json& frame) {
    processor.channel.queue(frame);
    processor.channel.pump();
}

void Processors::interrupt(const Processor& processor) const { ::kill(processor.pid, SIGINT); }

void Processors::kill(Processor& processor) {
    processor.isDoomed = true;
    ::kill(processor.pid, SIGKILL);
}

bool Processors::hasDoomed() const {
    return std::any_of(all_.begin(), all_.end(), [](const auto& processor) { return processor->isDoomed; });
}

std::vector<ProcessorEvent> Processors::step() {
    std::vector<ProcessorEvent> events;
    std::vector<std::shared_ptr<Processor>> living;
    for (const auto& processor : all_) {
        bool isAlive = processor->channel.pump();
        readOutput(processor, events, false);
        while (auto frame = processor->channel.next()) {
            // What a task has printed comes before its end (WRK-19); its processor has flushed it before.
            bool isEnd = (*frame)["kind"] == "ended";
            if (isEnd) readOutput(processor, events, true);
            events.push_back({ProcessorEvent::Kind::frame, processor, std::move(*frame)});
        }
        if (isAlive) {
            living.push_back(processor);
        } else {
            readOutput(processor, events, true);
            events.push_back(bury(processor));
        }
    }
    all_ = std::move(living);
    return events;
}

void Processors::readOutput(const std::shared_ptr<Processor>& processor, std::vector<ProcessorEvent>& events,
                            bool isAtEnd) {
    for (int index = 0; index < 2; ++index) {
        Bytes& lines = processor->lines[index];
        char buffer[64 << 10];
        ssize_t count = -1;
        while (processor->outputs[index] >= 0 && (count = read(processor->outputs[index], buffer, sizeof(buffer))) > 0) {
            lines.append(buffer, static_cast<size_t>(count));
        }
        if (count == 0) {  // closed by the function: nothing more will come, and polling it would never wait again
            close(processor->outputs[index]);
            processor->outputs[index] = -1;
        }
        size_t whole = isAtEnd ? lines.size() : lines.rfind('\n') + 1;
        Bytes ready = lines.substr(0, whole);
        lines.erase(0, whole);
        while (!ready.empty()) {
            size_t size = wholeCharacters(ready, textBytesMax);
            ProcessorEvent event{ProcessorEvent::Kind::output, processor};
            event.stream = static_cast<uint16_t>(index + 1);
            event.text = asText(ready.substr(0, size));
            events.push_back(std::move(event));
            ready.erase(0, size);
        }
    }
}

ProcessorEvent Processors::bury(const std::shared_ptr<Processor>& processor) const {
    int status = 0;
    rusage usage{};
    while (wait4(processor->pid, &status, 0, &usage) < 0 && errno == EINTR) {}
    for (int output : processor->outputs) {
        if (output >= 0) close(output);
    }
    ProcessorEvent event{ProcessorEvent::Kind::died, processor};
    event.exitCode = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    event.peakBytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    return event;
}

void Processors::addTo(std::vector<zmq::pollitem_t>& items) {
    for (const auto& processor : all_) {
        short writing = processor->channel.wantsToWrite() ? ZMQ_POLLOUT : 0;
        items.push_back({nullptr, processor->channel.fd(), static_cast<short>(ZMQ_POLLIN | writing), 0});
        for (int output : processor->outputs) {
            if (output >= 0) items.push_back({nullptr, output, ZMQ_POLLIN, 0});
        }
    }
}

// A processor may have answered while its call was written: that has been read, and no descriptor tells of it any more.
Seconds Processors::nextDeadline() const {
    bool isAnswered = std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one->channel.hasNext(); });
    return isAnswered ? 0 : std::numeric_limits<Seconds>::infinity();
}

}  // namespace scaler

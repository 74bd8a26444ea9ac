// scaler_port_client: a client that is driven by JSON lines, as ports/ADAPTER.md describes.

#include <poll.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "constants.capnp.h"
#include "scaler/client.h"

namespace scaler {

namespace {

using Json = nlohmann::json;

class Lines : public Pollable {
public:
    // The lines that are complete by now.
    std::vector<std::string> take() {
        std::vector<std::string> lines;
        pollfd item{STDIN_FILENO, POLLIN, 0};
        while (!isAtEnd_ && poll(&item, 1, 0) > 0) {
            char buffer[64 << 10];
            ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
            isAtEnd_ = count <= 0;
            std::string_view fresh(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0)));
            for (size_t end; (end = fresh.find('\n')) != fresh.npos; fresh.remove_prefix(end + 1)) {
                unfinished_ += fresh.substr(0, end);
                if (!unfinished_.empty()) lines.push_back(std::exchange(unfinished_, {}));
            }
            unfinished_ += fresh;
        }
        return lines;
    }
    bool isAtEnd() const { return isAtEnd_; }
    void addTo(std::vector<zmq::pollitem_t>& items) override { items.push_back({nullptr, STDIN_FILENO, ZMQ_POLLIN, 0}); }
    Seconds nextDeadline() const override { return 1e18; }

private:
    std::string unfinished_;
    bool isAtEnd_ = false;
};

void say(const Json& line) { std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl; }

std::vector<Bytes> bytesIn(const Json& list) {
    if (!list.is_array()) throw std::invalid_argument("expected a list of bytes");
    std::vector<Bytes> all;
    for (const Json& one : list) all.push_back(fromHex(one.get<std::string>()));
    return all;
}

CallOptions optionsIn(const Json& command) {
    CallOptions options;
    options.priority = command.value("priority", 0);
    options.timeoutSeconds = command.value("timeout", 0.0);
    options.retries = command.value("retries", uint16_t{0});
    options.flags = command.value("stream_output", false) ? FLAG_STREAM_OUTPUT : 0;
    Json capabilities = command.value("capabilities", Json::object());
    for (const auto& [name, amount] : capabilities.items()) {
        options.capabilities.push_back(Capability{name, amount.get<int64_t>()});
    }
    return options;
}

Json eventOf(const Happening& happening) {
    if (auto* end = std::get_if<Outcome>(&happening)) {
        Json line = {{"event", "result"}, {"task", toHex(end->task)}, {"status", end->status}};
        if (end->status == STATUS_SUCCESS) {
            line["value"] = toHex(end->value);
        } else {
            const Failure& failure = end->failure;
            line["error"] = {{"code", failure.code},         {"type", failure.typeName},
                             {"message", failure.message},   {"text", failure.text},
                             {"exit_code", failure.exitCode}, {"workers", failure.workers}};
        }
        return line;
    }
    if (auto* answer = std::get_if<CancelAnswer>(&happening)) {
        return {{"event", "cancel"}, {"task", toHex(answer->task)}, {"outcome", answer->outcome}};
    }
    if (auto* log = std::get_if<LogText>(&happening)) {
        return {{"event", "log"}, {"task", toHex(log->task)}, {"stream", log->stream}, {"text", log->text}};
    }
    if (auto* answer = std::get_if<ShutdownAnswer>(&happening)) {
        return {{"event", "shutdown"}, {"accepted", answer->isAccepted}, {"text", answer->text}};
    }
    if (auto* connected = std::get_if<Connected>(&happening)) {
        return {{"event", "connected"}, {"server", toHex(connected->serverId)}};
    }
    auto& lost = std::get<Disconnected>(happening);
    return {{"event", "disconnected"}, {"code", lost.code}, {"text", lost.text}, {"final", lost.isOver}};
}

class Driver {
public:
    int run() {
        while (!isOver_) {
            for (const std::string& line : lines_.take()) obey(line);
            if (lines_.isAtEnd()) isOver_ = true;
            if (client_) {
                for (const Happening& happening : client_->step()) say(eventOf(happening));
            }
            if (!isOver_) waitForAny(pollables(), std::clamp(deadline() - steadyNow(), 0.0, 1.0));
        }
        if (client_) client_->leave();
        return 0;
    }

private:
    std::vector<Pollable*> pollables() {
        std::vector<Pollable*> all = client_ ? client_->pollables() : std::vector<Pollable*>();
        all.push_back(&lines_);
        return all;
    }
    Seconds deadline() const { return client_ ? client_->nextDeadline() : 1e18; }

    void obey(const std::string& line) {
        Json command = Json::parse(line, nullptr, false);
        if (!command.is_object()) return say({{"id", nullptr}, {"error", {{"text", "this line is no JSON object"}}}});
        Json id = command.value("id", Json());
        try {
            Json answer = perform(command);
            if (answer.is_null()) return say({{"id", id}, {"unsupported", true}});
            say({{"id", id}, {"ok", answer}});
        } catch (const std::exception& error) {
            say({{"id", id}, {"error", {{"text", error.what()}}}});
        }
    }

    // Null: this client does not know the command.
    Json perform(const Json& command) {
        std::string op = command.value("op", "");
        if (op == "info") {
            return {{"adapter", 1}, {"name", "scaler-port-cpp"}, {"version", "1.0"}, {"roles", {"client"}},
                    {"features", Json::array()}};
        }
        if (op == "connect") return connect(command);
        if (op == "exit") {
            isOver_ = true;
            return Json::object();
        }
        if (op != "submit" && op != "map" && op != "cancel" && op != "shutdown" && op != "close") return Json();
        if (!client_) throw std::runtime_error("connect first");
        if (op == "submit") {
            Call call{command.at("function"), bytesIn(command.value("arguments", Json::array())), optionsIn(command)};
            return {{"task", toHex(client_->submit(std::move(call)))}};
        }
        if (op == "map") return map(command);
        if (op == "cancel") {
            client_->cancel(bytesIn(command.at("tasks")), command.value("grace", 1.0));
        } else if (op == "shutdown") {
            client_->shutdownCluster(command.value("grace", 1.0));
        } else {
            client_->leave();
            client_.reset();
        }
        return Json::object();
    }

    Json connect(const Json& command) {
        if (client_) throw std::runtime_error("there is a connection; close it first");
        Client::Options options;
        options.heartbeat = command.value("heartbeat", options.heartbeat);
        options.lease = command.value("lease", options.lease);
        options.giveUp = command.value("give_up", options.giveUp);
        options.pass = findPass();
        auto client = std::make_unique<Client>(context_, options);
        client->connect(command.at("scheduler"));
        client_ = std::move(client);
        return Json::object();
    }

    Json map(const Json& command) {
        Json tasks = Json::array();
        CallOptions options = optionsIn(command);
        for (const Json& arguments : command.at("calls")) {
            tasks.push_back(toHex(client_->submit(Call{command.at("function"), bytesIn(arguments), options})));
        }
        return {{"tasks", tasks}};
    }

    zmq::context_t context_;
    Lines lines_;
    std::unique_ptr<Client> client_;
    bool isOver_ = false;
};

}  // namespace

}  // namespace scaler

int main() {
    if (sodium_init() < 0) return 1;
    try {
        return scaler::Driver().run();
    } catch (const std::exception& error) {
        std::cerr << "scaler_port_client: " << error.what() << "\n";
        return 1;
    }
}

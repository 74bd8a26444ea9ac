// scaler_port_worker: a worker that runs functions by name.

#include <signal.h>
#include <sys/signalfd.h>
#include <sodium.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "worker/agent.h"
#include "worker/processor.h"

namespace {

const char usage[] = R"(usage: scaler_port_worker --scheduler ADDRESS [options]

A worker of the Scaler protocol, version 1, for functions by name.

  --scheduler ADDRESS    where the scheduler listens, such as tcp://127.0.0.1:2345; of several, with commas
  --storage ADDRESS      where objects live, if not where the scheduler says
  --name NAME            for people
  --places N             tasks at a time (1)
  --blocked N            tasks that may wait for their children (32)
  --capability NAME[=N]  what tasks may ask for; may be given several times
  --heartbeat SECONDS    proposed to the scheduler (2)
  --lease SECONDS        proposed to the scheduler (60)
  --present SECONDS      how long tasks are kept without a scheduler, for the next one (60)
  --grace SECONDS        for running tasks, when the worker is told to end (5)

The variable SCALER_KEY_FILE names the file with the cluster's key or with a ticket of role worker; SCALER_KEY holds the
text of one. Without either, the worker joins insecure clusters only.
)";

[[noreturn]] void fail(const std::string& what) {
    std::cerr << "scaler_port_worker: " << what << "\n" << usage;
    std::exit(2);
}

std::string address(const std::string& text, bool isList = false) {
    try {
        isList ? void(scaler::addressesOf(text)) : scaler::checkAddress(text);
    } catch (const std::invalid_argument& error) {
        fail(error.what());
    }
    return text;
}

double number(const std::string& option, const std::string& text, double least) {
    size_t end = 0;
    double value = 0;
    try {
        value = std::stod(text, &end);
    } catch (const std::exception&) {
    }
    if (end == 0 || end != text.size() || !(value >= least) || value > 1e9) {
        std::ostringstream what;
        what << option << " takes a number of at least " << least << ", not '" << text << "'";
        fail(what.str());
    }
    return value;
}

void addCapability(scaler::WorkerOptions& options, const std::string& text) {
    size_t equals = text.find('=');
    int64_t amount = -1;
    if (equals != std::string::npos) {
        amount = static_cast<int64_t>(number("--capability", text.substr(equals + 1), 0));
    }
    options.capabilities.emplace_back(text.substr(0, equals), amount);
}

scaler::WorkerOptions parse(int count, char** words) {
    scaler::WorkerOptions options;
    for (int at = 1; at < count; ++at) {
        std::string option = words[at];
        if (option == "--help") {
            std::cout << usage;
            std::exit(0);
        }
        if (at + 1 == count) fail(option + " needs a value, or is no option");
        std::string value = words[++at];
        if (option == "--scheduler") options.scheduler = address(value, true);
        else if (option == "--storage") options.storage = address(value);
        else if (option == "--name") options.name = value;
        else if (option == "--places") options.places = static_cast<uint32_t>(number(option, value, 1));
        else if (option == "--blocked") options.blockedMax = static_cast<uint32_t>(number(option, value, 0));
        else if (option == "--capability") addCapability(options, value);
        else if (option == "--heartbeat") options.heartbeat = number(option, value, 0.05);
        else if (option == "--lease") options.lease = number(option, value, 0.15);
        else if (option == "--present") options.present = number(option, value, 0);
        else if (option == "--grace") options.grace = number(option, value, 0);
        else fail("there is no option " + option);
    }
    if (options.scheduler.empty()) fail("--scheduler is missing");
    return options;
}

}  // namespace

int main(int count, char** words) {
    if (count == 2 && std::strcmp(words[1], "--processor") == 0) return scaler::runProcessor();
    if (sodium_init() < 0) fail("libsodium does not work on this machine");
    scaler::WorkerOptions options = parse(count, words);
    try {
        options.pass = scaler::findPass();
    } catch (const std::invalid_argument& error) {
        fail(error.what());
    }
    sigset_t ending;  // blocked before ZeroMQ starts its threads, so that only the descriptor sees them
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, nullptr);
    try {
        zmq::context_t context;
        scaler::Agent agent(context, options, signalfd(-1, &ending, SFD_NONBLOCK | SFD_CLOEXEC));
        return agent.run();
    } catch (const std::exception& error) {
        std::cerr << "scaler_port_worker: " << error.what() << "\n";
        return 1;
    }
}

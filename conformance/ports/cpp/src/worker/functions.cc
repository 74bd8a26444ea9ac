#include "worker/functions.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "worker/streaming.h"

namespace scaler {

namespace {

using Arguments = std::vector<Bytes>;
using Clock = std::chrono::steady_clock;

int64_t asNumber(const Bytes& text) {
    int64_t number = 0;
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc() || end != text.data() + text.size()) {
        throw Raised("ValueError", "'" + asText(text) + "' is not a decimal number");
    }
    return number;
}

const Bytes& argument(const Arguments& arguments, size_t index) {
    if (index >= arguments.size()) throw Raised("TypeError", "an argument is missing");
    return arguments[index];
}

Bytes echo(const Arguments& arguments, Surroundings&) { return argument(arguments, 0); }

Bytes concat(const Arguments& arguments, Surroundings&) {
    Bytes all;
    for (const Bytes& one : arguments) all += one;
    return all;
}

Bytes reverse(const Arguments& arguments, Surroundings&) {
    const Bytes& bytes = argument(arguments, 0);
    return Bytes(bytes.rbegin(), bytes.rend());
}

Bytes add(const Arguments& arguments, Surroundings&) {
    int64_t sum = 0;
    for (const Bytes& one : arguments) {
        if (__builtin_add_overflow(sum, asNumber(one), &sum)) throw Raised("OverflowError", "the sum is too large");
    }
    return std::to_string(sum);
}

Bytes fail(const Arguments& arguments, Surroundings&) {
    throw Raised("Failure", arguments.empty() ? "asked to fail" : asText(arguments[0]));
}

Bytes sleepMs(const Arguments& arguments, Surroundings& surroundings) {
    auto until = Clock::now() + std::chrono::milliseconds(asNumber(argument(arguments, 0)));
    while (Clock::now() < until) {
        if (surroundings.isInterrupted()) throw Interrupted();
        auto step = std::min<Clock::duration>(until - Clock::now(), std::chrono::milliseconds(5));
        std::this_thread::sleep_for(step);
    }
    return {};
}

// Computes and never looks up: only killing its processor stops it.
Bytes spinMs(const Arguments& arguments, Surroundings&) {
    auto until = Clock::now() + std::chrono::milliseconds(asNumber(argument(arguments, 0)));
    while (Clock::now() < until) {}
    return {};
}

Bytes bytesN(const Arguments& arguments, Surroundings&) {
    int64_t count = asNumber(argument(arguments, 0));
    if (count < 0 || count > (int64_t{1} << 32)) throw Raised("ValueError", "that many bytes cannot be made");
    Bytes bytes(static_cast<size_t>(count), '\0');
    for (size_t index = 0; index < bytes.size(); ++index) bytes[index] = static_cast<char>(index % 251);
    return bytes;
}

[[noreturn]] Bytes crash(const Arguments& arguments, Surroundings&) {
    if (!arguments.empty()) std::_Exit(static_cast<int>(asNumber(arguments[0])));
    std::abort();
}

Bytes submitChild(const Arguments& arguments, Surroundings& surroundings) {
    const Bytes& name = argument(arguments, 0);
    return surroundings.callElsewhere(name, Arguments(arguments.begin() + 1, arguments.end()));
}

Bytes printText(const Arguments& arguments, Surroundings&) {
    for (const Bytes& one : arguments) std::fwrite(one.data(), 1, one.size(), stdout);
    return {};
}

Bytes streamN(const Arguments& arguments, Surroundings& surroundings) {
    int64_t window = asNumber(argument(arguments, 1)), count = asNumber(argument(arguments, 2));
    StreamWriter writer(surroundings, argument(arguments, 0), static_cast<uint64_t>(std::max<int64_t>(0, window)));
    Arguments pause = {arguments.size() > 3 ? arguments[3] : "0"};
    for (int64_t number = 0; number < count; ++number) {
        sleepMs(pause, surroundings);
        writer.write(std::to_string(number));
    }
    return std::to_string(count);
}

const std::map<std::string, Function> functions = {
    {"add", add},         {"bytes_n", bytesN},   {"concat", concat},      {"crash", crash},
    {"echo", echo},       {"fail", fail},        {"print_text", printText}, {"read_object", echo},
    {"reverse", reverse}, {"sleep_ms", sleepMs}, {"spin_ms", spinMs},     {"submit_child", submitChild},
    {"stream_n", streamN},
};

}  // namespace

const Function* findFunction(const std::string& name) {
    auto found = functions.find(name);
    return found == functions.end() ? nullptr : &found->second;
}

}  // namespace scaler

// Tasks and results in columns. Spec chapter 08 (BAT, PAY).
//
// Reading checks everything (BAT-2) and throws a Refusal; what it returns can be used without another look.
#pragma once

#include <memory>

#include "scaler/envelope.h"

namespace scaler {

struct Part {
    uint8_t kind;
    Bytes bytes;  // the value, or the id of an object or a task
};

struct Header {
    Id client;
    uint16_t callFormat = 0;
    std::vector<std::string> keywords;
    uint16_t depth = 0;
    int32_t priority = 0;
    uint32_t flags = 0;
    double timeoutSeconds = 0;
    Bytes resultSalt;
    Bytes ownerGrant;  // of the client
    uint64_t generation = 0;  // of the scheduler that sent it; zero: it does not say
};

// A value that a TASK part refers to.
struct Input {
    uint8_t kind;
    Bytes bytes;
};

struct Task {
    Id id;
    uint16_t attempt = 1;
    Id function;
    std::vector<Part> parts;  // TASK parts have been replaced by their inputs, but for those that it awaits
    std::vector<Id> awaited;  // tasks that have to succeed at this worker before (feature `chains`)
    std::shared_ptr<const Header> header;
};

struct Result {
    Id id;
    uint16_t attempt = 1;
    uint8_t status = 0;
    uint8_t kind = 0;
    Bytes value;
    uint64_t durationNs = 0, processorNs = 0, peakBytes = 0;
};

// What a TaskError says, as far as this port needs it (PAY-3: one that cannot be read has a code only).
struct Failure {
    uint16_t code = 0;
    std::string typeName, message, text;
    int32_t exitCode = 0;
    uint64_t peakMemoryBytes = 0;
    std::vector<std::string> workers;
};

std::vector<Task> readDispatch(const Message& message, const Limits& limits);
std::vector<Result> readResults(const Message& message, const Limits& limits);

// As many of the results as fit into one message, from `first` on; `first` is moved behind them (LIM-1).
struct ResultsMessage {
    Fill fill;
    Bytes payload;
};
ResultsMessage writeResults(const std::vector<Result>& results, size_t& first, bool hasProfiles, const Limits& limits);

Bytes writeFailure(const Failure& failure, uint32_t inlineBytes);
Failure readFailure(const Bytes& encoded, uint8_t status);

}  // namespace scaler

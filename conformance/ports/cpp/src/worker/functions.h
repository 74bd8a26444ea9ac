// The functions that this worker knows by name. Arguments and return values are bytes; numbers in them are decimal text.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "scaler/bytes.h"

namespace scaler {

// The user's code has raised an error.
struct Raised : std::runtime_error {
    Raised(std::string type, const std::string& message) : std::runtime_error(message), typeName(std::move(type)) {}
    std::string typeName;
};

// The task was canceled, or its time is up, and the function has noticed.
struct Interrupted {};

// What a function may do beyond computing.
class Surroundings {
public:
    virtual ~Surroundings() = default;
    virtual bool isInterrupted() const = 0;
    // Runs another function as a child of this task, somewhere in the cluster, and waits for its value.
    virtual Bytes callElsewhere(const std::string& function, std::vector<Bytes> arguments) = 0;
};

using Function = std::function<Bytes(const std::vector<Bytes>& arguments, Surroundings& surroundings)>;

// Null when there is none of that name.
const Function* findFunction(const std::string& name);

}  // namespace scaler

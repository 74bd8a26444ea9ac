// The functions that this worker knows by name. Arguments and return values are bytes; numbers in them are decimal text.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "constants.capnp.h"
#include "scaler/bytes.h"

namespace scaler {

// The user's code has raised an error.
struct Raised : std::runtime_error {
    Raised(std::string type, const std::string& message, uint16_t error = TASK_RAISED)
        : std::runtime_error(message), typeName(std::move(type)), code(error) {}
    std::string typeName;
    uint16_t code;
};

// The task was canceled, or its time is up, and the function has noticed.
struct Interrupted {};

// What to do about an object that is there with other bytes.
enum class PutOver { raise, ignore };

// What a function may do beyond computing. All but `isInterrupted` throw Interrupted when the task is canceled.
class Surroundings {
public:
    virtual ~Surroundings() = default;
    virtual bool isInterrupted() const = 0;
    // Runs another function as a child of this task, somewhere in the cluster, and waits for its value.
    virtual Bytes callElsewhere(const std::string& function, std::vector<Bytes> arguments) = 0;
    // Objects in the name of the task's client. Raised, if the storage does not do it.
    virtual void put(const Id& object, const Bytes& value, PutOver over) = 0;
    virtual std::optional<Bytes> get(const Id& object, double waitSeconds) = 0;  // nothing: it has not come in that time
    virtual void release(const std::vector<Id>& objects) = 0;
    // In between the task lends its place to others.
    virtual void block() = 0;
    virtual void unblock() = 0;
};

using Function = std::function<Bytes(const std::vector<Bytes>& arguments, Surroundings& surroundings)>;

// Null when there is none of that name.
const Function* findFunction(const std::string& name);

}  // namespace scaler

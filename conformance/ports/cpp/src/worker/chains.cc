#include "worker/chains.h"

#include <utility>

#include "constants.capnp.h"
#include "worker/agent.h"

namespace scaler {

namespace {

constexpr size_t valuesMax = 4096, valueBytesMax = size_t{16} << 20;

}  // namespace

void Successes::add(const Result& result) {
    auto [at, isNew] = values_.insert_or_assign(result.id, Part{result.kind, result.value});
    bytes_ += at->second.bytes.size();
    if (isNew) order_.push_back(result.id);
    while (!order_.empty() && (order_.size() > valuesMax || bytes_ > valueBytesMax)) {
        auto oldest = values_.find(order_.front());
        bytes_ -= oldest->second.bytes.size();
        values_.erase(oldest);
        order_.pop_front();
    }
}

const Part* Successes::find(const Id& task) const {
    auto found = values_.find(task);
    return found == values_.end() ? nullptr : &found->second;
}

void Successes::clear() {
    values_.clear();
    order_.clear();
    bytes_ = 0;
}

// False: one of the tasks that it awaits is not here, and its value is not either. Then it is given back (WRK-24).
bool Agent::followAll(Number number) {
    Held& held = held_.at(number);
    for (const Id& awaited : held.task.awaited) {
        auto known = numbers_.find(awaited);
        if (known != numbers_.end() && known->second != number) {
            ++held.missing;
            held_.at(known->second).followers.push_back(number);
        } else if (const Part* value = successes_.find(awaited)) {
            insertValue(held, awaited, *value);
        } else {
            return false;
        }
    }
    return true;
}

void Agent::insertValue(Held& held, const Id& awaited, const Part& value) {
    for (Part& part : held.task.parts) {
        if (part.kind == KIND_TASK && part.bytes == awaited) part = value;
    }
}

// The last of what it awaited may have ended: what is still missing are objects.
void Agent::awaitedHasSucceeded(Number follower, const Result& result) {
    auto found = held_.find(follower);
    if (found == held_.end()) return;
    std::vector<size_t> objects;
    auto& parts = found->second.task.parts;
    for (size_t index = 0; index < parts.size(); ++index) {
        bool isMeant = parts[index].kind == KIND_TASK && parts[index].bytes == result.id;
        if (isMeant && result.kind == KIND_OBJECT) objects.push_back(index);
    }
    insertValue(found->second, result.id, Part{result.kind, result.value});
    for (size_t index : objects) {
        if (held_.count(follower) > 0) fetchPart(follower, index);
    }
    if (held_.count(follower) > 0) arrived(follower);
}

// Those of these tasks that have not begun, and whatever awaits them: they are as if they had never been here (WRK-24).
std::vector<Id> Agent::takeBack(std::vector<Number> numbers) {
    std::vector<Id> returned;
    while (!numbers.empty()) {
        auto found = held_.find(numbers.back());
        numbers.pop_back();
        if (found == held_.end() || hasBegun(found->second)) continue;
        Held& held = found->second;
        numbers.insert(numbers.end(), held.followers.begin(), held.followers.end());
        returned.push_back(held.task.id);
        forget(found->first);
    }
    return returned;
}

void Agent::giveBack(std::vector<Number> numbers) {
    std::vector<Id> returned = takeBack(std::move(numbers));
    if (!returned.empty()) reports_.giveBack(returned, false);
}

void Agent::forget(Number number) {
    auto known = numbers_.find(held_.at(number).task.id);
    if (known != numbers_.end() && known->second == number) numbers_.erase(known);
    held_.erase(number);
}

}  // namespace scaler

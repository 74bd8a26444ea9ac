// The values of tasks that have succeeded here of late, for those that await them. Spec chapter 07, "Tasks ahead of their
// time" (feature `chains`).
#pragma once

#include <deque>
#include <unordered_map>

#include "scaler/batch.h"

namespace scaler {

// Bounded: a task that awaits what has fallen out is given back, and comes again with its input (WRK-24).
class Successes {
public:
    void add(const Result& result);
    // Null: that task has not succeeded here, or too long ago.
    const Part* find(const Id& task) const;
    void clear();

private:
    std::unordered_map<Id, Part> values_;
    std::deque<Id> order_;
    size_t bytes_ = 0;
};

}  // namespace scaler

// Streams: values that a task has before it ends, as objects under ids that both sides compute. Spec chapter 07 (WRK-58 to
// WRK-60).
#pragma once

#include "scaler/bytes.h"

namespace scaler {

enum class StreamObject : uint8_t { begun = 0, value = 1, credit = 2 };

constexpr uint64_t streamWindowMax = 65536;  // LIM-28

inline Id streamObjectId(const Id& stream, StreamObject kind, uint64_t number = 0) {
    Bytes named = stream;
    append<uint8_t>(named, static_cast<uint8_t>(kind));
    append<uint64_t>(named, number);
    return contentId(named);
}

}  // namespace scaler

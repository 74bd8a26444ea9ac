// Bytes, ids and the packed columns of batches. Spec chapters 08 (BAT), 12 (STO-2) and 13 (OWN-6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <capnp/blob.h>

namespace scaler {

using Bytes = std::string;

// Sixteen bytes that are compared for equality and never looked into. An optional id may also be empty.
using Id = std::string;
constexpr size_t idBytes = 16;

Id randomId();
Id contentId(std::string_view bytes);                                                          // STO-2
Id resultObjectId(const Id& task, uint16_t attempt, const Bytes& salt, const Bytes& client);  // OWN-6

std::string toHex(std::string_view bytes);
// Throws std::invalid_argument when `hex` is not pairs of hexadecimal digits.
Bytes fromHex(std::string_view hex);

inline Bytes toBytes(capnp::Data::Reader data) {
    return Bytes(reinterpret_cast<const char*>(data.begin()), data.size());
}

inline std::string toString(capnp::Text::Reader text) {
    return std::string(text.cStr(), text.size());
}

inline capnp::Data::Reader asData(std::string_view bytes) {
    return capnp::Data::Reader(reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size());
}

bool isUtf8(std::string_view text);
// What may travel in a Text, whatever the bytes are.
std::string asText(std::string_view bytes);

// Columns hold their items packed and little-endian (BAT-1).
template <typename Number>
void append(Bytes& column, Number number) {
    for (size_t index = 0; index < sizeof(Number); ++index) {
        column.push_back(static_cast<char>((number >> (8 * index)) & 0xff));
    }
}

template <typename Number>
Number numberAt(std::string_view column, size_t index) {
    Number number = 0;
    for (size_t at = sizeof(Number); at-- > 0;) {
        number = static_cast<Number>((static_cast<uint64_t>(number) << 8) |
                                     static_cast<uint8_t>(column[index * sizeof(Number) + at]));
    }
    return number;
}

// An empty column stands for the default for every item.
template <typename Number>
Number numberAtOr(std::string_view column, size_t index, Number otherwise) {
    return column.empty() ? otherwise : numberAt<Number>(column, index);
}

std::vector<Id> idsOf(std::string_view column);

}  // namespace scaler

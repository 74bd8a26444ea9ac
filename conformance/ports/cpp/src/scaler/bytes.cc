#include "scaler/bytes.h"

#include <sodium.h>

#include <stdexcept>

namespace scaler {

Id randomId() {
    Id id(idBytes, '\0');
    randombytes_buf(id.data(), id.size());
    return id;
}

Id contentId(std::string_view bytes) {
    Id id(idBytes, '\0');
    crypto_generichash(reinterpret_cast<unsigned char*>(id.data()), id.size(),
                       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr, 0);
    return id;
}

Id resultObjectId(const Id& task, uint16_t attempt, const Bytes& salt, const Bytes& client) {
    Bytes named = task;
    append<uint16_t>(named, attempt);
    return contentId(salt.empty() ? named : named + salt + client);
}

std::string toHex(std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    hex.reserve(bytes.size() * 2);
    for (unsigned char byte : bytes) {
        hex.push_back(digits[byte >> 4]);
        hex.push_back(digits[byte & 15]);
    }
    return hex;
}

Bytes fromHex(std::string_view hex) {
    Bytes bytes(hex.size() / 2, '\0');
    size_t length = 0;
    const char* end = nullptr;
    int failed = sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), hex.data(), hex.size(),
                                nullptr, &length, &end);
    if (failed != 0 || end != hex.data() + hex.size()) {
        throw std::invalid_argument("expected bytes as pairs of hexadecimal digits");
    }
    return bytes;
}

bool isUtf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        auto lead = static_cast<unsigned char>(text[at]);
        size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
        if (length == 0 || at + length > text.size()) return false;
        uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
        for (size_t next = 1; next < length; ++next) {
            auto byte = static_cast<unsigned char>(text[at + next]);
            if (byte >> 6 != 2) return false;
            point = (point << 6) | (byte & 0x3f);
        }
        constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
        at += length;
    }
    return true;
}

std::string asText(std::string_view bytes) {
    std::string text(bytes);
    if (isUtf8(text)) return text;
    for (char& one : text) {
        if ((one & 0x80) != 0) one = '?';
    }
    return text;
}

std::vector<Id> idsOf(std::string_view column) {
    std::vector<Id> ids;
    ids.reserve(column.size() / idBytes);
    for (size_t at = 0; at + idBytes <= column.size(); at += idBytes) {
        ids.emplace_back(column.substr(at, idBytes));
    }
    return ids;
}

}  // namespace scaler

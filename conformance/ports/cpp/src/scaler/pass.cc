#include "scaler/pass.h"

#include <fcntl.h>
#include <pwd.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t keyBytes = 32;
constexpr size_t keysMax = 8;
constexpr size_t textBytesMax = 4096;
constexpr size_t ticketHeadBytes = 1 + 2 + 8 + keyBytes + 1;  // version, roles, expiry, holder, length of the name
constexpr size_t ticketBytesMax = 1024;
constexpr std::string_view keyPrefix = "scaler-key-1:";
constexpr std::string_view ticketPrefix = "scaler-ticket-1:";

const unsigned char* asUnsigned(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* asUnsigned(Bytes& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

[[noreturn]] void refuse(const std::string& origin, const std::string& why) {
    throw std::invalid_argument(origin + " " + why);
}

// The keyed BLAKE2b hash of a label or of a ticket (SEC-8).
Bytes keyedHash(std::string_view key, std::string_view content) {
    Bytes hash(keyBytes, '\0');
    crypto_generichash(asUnsigned(hash), hash.size(), asUnsigned(content), content.size(), asUnsigned(key), key.size());
    return hash;
}

Bytes publicKeyOf(const Bytes& secretKey) {
    Bytes key(keyBytes, '\0');
    crypto_scalarmult_base(asUnsigned(key), asUnsigned(secretKey));
    return key;
}

std::string accountName() {
    const passwd* account = getpwuid(geteuid());
    return account != nullptr ? account->pw_name : "uid " + std::to_string(geteuid());
}

// A holder of the cluster's key signs a ticket of its own: all roles, and it never expires (SEC-9).
Bytes ownTicket(const Bytes& key, const Bytes& holder) {
    constexpr uint16_t roles =
        1u << ROLE_CLIENT | 1u << ROLE_WORKER | 1u << ROLE_SCHEDULER | 1u << ROLE_MONITOR | 1u << ROLE_MANAGER;
    constexpr uint16_t isOperator = 1u << 15;
    std::string user = accountName();
    Bytes ticket(1, '\1');
    append<uint16_t>(ticket, roles | isOperator);
    append<uint64_t>(ticket, 0);
    ticket += holder;
    ticket.push_back(static_cast<char>(user.size()));
    ticket += user;
    return ticket + keyedHash(keyedHash(key, "scaler ticket 1"), ticket);
}

Pass passOfKeys(const std::vector<std::string>& lines, const std::string& origin) {
    std::vector<Bytes> keys;
    for (const std::string& line : lines) {
        bool isKey = line.size() == keyPrefix.size() + 2 * keyBytes && line.rfind(keyPrefix, 0) == 0;
        if (!isKey || keys.size() == keysMax) refuse(origin, "is no key file: copy it again from the scheduler's machine");
        keys.push_back(fromHex(std::string_view(line).substr(keyPrefix.size())));
    }
    Pass pass;
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {  // servers listen with the oldest (SEC-12)
        pass.serverKeys.push_back(publicKeyOf(keyedHash(*key, "scaler curve 1")));
    }
    pass.secretKey = Bytes(keyBytes, '\0');
    randombytes_buf(pass.secretKey.data(), keyBytes);
    pass.publicKey = publicKeyOf(pass.secretKey);
    pass.ticket = ownTicket(keys.front(), pass.publicKey);
    return pass;
}

Pass passOfTicket(std::string_view text, const std::string& origin) {
    Bytes content(text.size(), '\0');
    size_t size = 0;
    bool isRead = sodium_base642bin(asUnsigned(content), content.size(), text.data(), text.size(), nullptr, &size, nullptr,
                                    sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
    content.resize(isRead ? size : 0);
    size_t count = content.empty() ? 0 : static_cast<unsigned char>(content[0]);
    size_t ticketAt = 1 + (count + 1) * keyBytes;
    if (count < 1 || count > keysMax || content.size() < ticketAt + ticketHeadBytes ||
        content.size() > ticketAt + ticketBytesMax) {
        refuse(origin, "holds a damaged ticket: copy the file again, or let `scaler_key derive` write it");
    }
    Pass pass;
    for (size_t number = 0; number < count; ++number) pass.serverKeys.push_back(content.substr(1 + number * keyBytes, keyBytes));
    pass.secretKey = content.substr(ticketAt - keyBytes, keyBytes);
    pass.publicKey = publicKeyOf(pass.secretKey);
    pass.ticket = content.substr(ticketAt);
    return pass;
}

// The file, if it is this account's alone (SEC-7).
std::string readPrivateFile(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        refuse(path, errno == ELOOP ? "is a symbolic link: name the file itself" : "cannot be read: " + std::string(strerror(errno)));
    }
    struct stat found = {};
    std::string text(textBytesMax + 1, '\0');
    bool isMine = fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0;
    ssize_t size = isMine ? read(file, text.data(), text.size()) : 0;
    close(file);
    if (!isMine) refuse(path, "is no file that this account owns and no other user can read: copy it, and chmod 600 it");
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return text;
}

}  // namespace

Pass passIn(const std::string& text, const std::string& origin) {
    if (text.size() > textBytesMax) refuse(origin, "is too large to be a key file");
    std::vector<std::string> lines;
    std::istringstream source(text);
    for (std::string line; std::getline(source, line);) {
        size_t begin = line.find_first_not_of(" \t\r");
        if (begin == line.npos || line[begin] == '#') continue;
        lines.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
    }
    if (lines.empty()) refuse(origin, "holds no key: write one with `scaler_key make`");
    if (lines.size() == 1 && lines[0].rfind(ticketPrefix, 0) == 0) {
        return passOfTicket(std::string_view(lines[0]).substr(ticketPrefix.size()), origin);
    }
    return passOfKeys(lines, origin);
}

PassOrNone findPass() {
    const char* path = std::getenv("SCALER_KEY_FILE");
    if (path != nullptr && *path != '\0') return std::make_shared<Pass>(passIn(readPrivateFile(path), path));
    const char* text = std::getenv("SCALER_KEY");
    if (text != nullptr && *text != '\0') return std::make_shared<Pass>(passIn(text, "the variable SCALER_KEY"));
    return nullptr;
}

}  // namespace scaler

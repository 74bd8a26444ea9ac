#include "worker/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace scaler {

namespace {

constexpr size_t lengthBytes = sizeof(uint64_t);
constexpr size_t readBytes = 256 << 10;

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      unwritten_(std::move(other.unwritten_)),
      unread_(std::move(other.unread_)),
      writtenBytes_(other.writtenBytes_) {}

Channel::~Channel() {
    if (fd_ >= 0) close(fd_);
}

void Channel::queue(const Json& frame) {
    std::vector<uint8_t> encoded = Json::to_cbor(frame);
    append<uint64_t>(unwritten_, encoded.size());
    unwritten_.append(encoded.begin(), encoded.end());
}

bool Channel::pump() {
    while (wantsToWrite()) {
        ssize_t count = send(fd_, unwritten_.data() + writtenBytes_, unwritten_.size() - writtenBytes_, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0) break;  // full, or gone: then reading says so
        writtenBytes_ += static_cast<size_t>(count);
    }
    if (!wantsToWrite()) {
        unwritten_.clear();
        writtenBytes_ = 0;
    }
    char buffer[readBytes];
    while (true) {
        ssize_t count = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
        if (count > 0) {
            unread_.append(buffer, static_cast<size_t>(count));
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else if (errno == EAGAIN) {
            return true;
        }
    }
}

bool Channel::hasNext() const {
    return unread_.size() >= lengthBytes && unread_.size() - lengthBytes >= numberAt<uint64_t>(unread_, 0);
}

std::optional<Json> Channel::next() {
    if (!hasNext()) return std::nullopt;
    size_t length = numberAt<uint64_t>(unread_, 0);
    Json frame = Json::from_cbor(unread_.begin() + lengthBytes, unread_.begin() + static_cast<ssize_t>(lengthBytes + length));
    unread_.erase(0, lengthBytes + length);
    return frame;
}

std::optional<Json> Channel::waitForNext() {
    while (true) {
        if (auto frame = next()) return frame;
        pollfd item{fd_, POLLIN, 0};
        if (poll(&item, 1, -1) > 0 && !pump()) return std::nullopt;
    }
}

void Channel::writeAll(const Json& frame) {
    queue(frame);
    while (pump() && wantsToWrite()) {
        pollfd item{fd_, POLLOUT, 0};
        poll(&item, 1, -1);
    }
}

}  // namespace scaler

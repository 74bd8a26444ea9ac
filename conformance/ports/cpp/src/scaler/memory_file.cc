#include "scaler/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace scaler {

namespace {

constexpr int allSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

std::string nameOf(const Id& name) { return "scaler-" + toHex(name); }

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    operator int() const { return number_; }

private:
    int number_;
};

bool writeAll(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t count = write(descriptor, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
}

// What a descriptor under /proc leads to, without opening it: to open some kinds of files waits, or does something.
bool isCalled(const std::string& path, const std::string& name) {
    std::string target(4096, '\0');
    ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length < 0) return false;
    target.resize(static_cast<size_t>(length));
    return target == "/memfd:" + name + " (deleted)";
}

}  // namespace

std::optional<SealedFile> SealedFile::holding(std::string_view bytes) {
    Id name = randomId();
    int descriptor = memfd_create(nameOf(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return std::nullopt;
    SealedFile file(descriptor, std::move(name));
    if (!writeAll(descriptor, bytes) || fcntl(descriptor, F_ADD_SEALS, allSeals) != 0) return std::nullopt;
    return file;
}

SealedFile::SealedFile(SealedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

SealedFile& SealedFile::operator=(SealedFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(name_, other.name_);
    return *this;
}

SealedFile::~SealedFile() {
    if (descriptor_ >= 0) close(descriptor_);
}

void SealedFile::tell(MemoryFile::Builder file) const {
    file.setProcessId(static_cast<uint32_t>(getpid()));
    file.setDescriptor(static_cast<uint32_t>(descriptor_));
    file.setName(asData(name_));
}

std::optional<Bytes> readSealed(MemoryFile::Reader file, uint64_t totalBytes) {
    std::string path = "/proc/" + std::to_string(file.getProcessId()) + "/fd/" + std::to_string(file.getDescriptor());
    std::string name = nameOf(toBytes(file.getName()));
    if (!isCalled(path, name)) return std::nullopt;
    Descriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (opened < 0 || !isCalled("/proc/self/fd/" + std::to_string(int{opened}), name)) return std::nullopt;
    struct stat status {};
    int seals = fcntl(opened, F_GET_SEALS);
    bool isSealed = seals >= 0 && (seals & allSeals) == allSeals;
    if (!isSealed || fstat(opened, &status) != 0 || static_cast<uint64_t>(status.st_size) != totalBytes) return std::nullopt;
    Bytes bytes(totalBytes, '\0');
    for (size_t read = 0; read < bytes.size();) {
        ssize_t count = pread(opened, bytes.data() + read, bytes.size() - read, static_cast<off_t>(read));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return std::nullopt;
        read += static_cast<size_t>(count);
    }
    return bytes;
}

}  // namespace scaler

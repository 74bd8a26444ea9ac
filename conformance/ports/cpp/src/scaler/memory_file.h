// Memory files, in which peers of one host pass large values. Spec chapter 12 (STO-19, STO-20), feature `memfd`.
#pragma once

#include <optional>

#include "objects.capnp.h"
#include "scaler/bytes.h"

namespace scaler {

class SealedFile {
public:
    // Empty where the system has none, or no descriptor is left.
    static std::optional<SealedFile> holding(std::string_view bytes);
    SealedFile(SealedFile&& other) noexcept;
    SealedFile& operator=(SealedFile&& other) noexcept;
    ~SealedFile();

    void tell(MemoryFile::Builder file) const;

private:
    SealedFile(int descriptor, Id name) : descriptor_(descriptor), name_(std::move(name)) {}

    int descriptor_;
    Id name_;
};

// All its bytes, after it has proved to be what is said of it; otherwise nothing.
std::optional<Bytes> readSealed(MemoryFile::Reader file, uint64_t totalBytes);

}  // namespace scaler

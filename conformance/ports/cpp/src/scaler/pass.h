// What a dialer shows of itself: the servers' public keys, a CURVE pair of its own, and a ticket. Spec chapter 17 (SEC).
#pragma once

#include <memory>

#include "scaler/bytes.h"

namespace scaler {

struct Pass {
    std::vector<Bytes> serverKeys;  // in the order in which they are tried
    Bytes publicKey, secretKey;     // CURVE, 32 bytes each
    Bytes ticket;                   // goes into Hello.credential
};

// None: the cluster is insecure.
using PassOrNone = std::shared_ptr<const Pass>;

// From the key file or ticket file that SCALER_KEY_FILE names, or else from the text of one in SCALER_KEY; none when
// neither is set. Throws std::invalid_argument with a sentence that says what to do, and never falls back.
PassOrNone findPass();

// From the text of a key file or a ticket file; `origin` is named in errors.
Pass passIn(const std::string& text, const std::string& origin);

}  // namespace scaler

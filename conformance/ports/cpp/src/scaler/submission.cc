#include "scaler/submission.h"

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t rowBytes = 2 * idBytes + 2 + 2;  // of a call in the columns, with a function of its own
constexpr size_t partBytes = 1 + 4;
constexpr size_t envelopeSpare = 8192;  // for the header
constexpr size_t functionsMax = 65535, partsMax = 65535;  // what their columns can say

}  // namespace

bool Submission::add(const Id& task, const Id& function, const std::vector<Argument>& arguments,
                     const CallOptions& options) {
    size_t bytes = 0;
    for (const Argument& argument : arguments) bytes += argument.bytes.size();
    size_t columns = functions_.size() + ids_.size() + functionIndexes_.size() + partCounts_.size() +
                     partKinds_.size() + partSizes_.size();
    bool fits = count_ < limits_.batchTasks && indexes_.size() < functionsMax && arguments.size() <= partsMax &&
                columns + rowBytes + arguments.size() * partBytes + envelopeSpare <= limits_.envelopeBytes &&
                payload_.size() + bytes <= limits_.payloadFrameBytes;
    if (!fits || !(options == options_)) return false;
    auto [at, isNew] = indexes_.emplace(function, static_cast<uint16_t>(indexes_.size()));
    if (isNew) functions_ += function;
    ids_ += task;
    append<uint16_t>(functionIndexes_, at->second);
    append<uint16_t>(partCounts_, static_cast<uint16_t>(arguments.size()));
    for (const Argument& argument : arguments) {
        append<uint8_t>(partKinds_, argument.kind);
        append<uint32_t>(partSizes_, static_cast<uint32_t>(argument.bytes.size()));
        payload_ += argument.bytes;
    }
    ++count_;
    return true;
}

Fill Submission::fill() const {
    return [this](Body::Builder body) {
        auto batch = body.initSubmit();
        auto header = batch.initHeader();
        header.setCallFormat(CALL_RAW);
        header.setPriority(options_.priority);
        header.setTimeoutSeconds(options_.timeoutSeconds);
        header.setRetries(options_.retries);
        header.setFlags(options_.flags);
        header.setDepth(standing_.depth);
        header.setParentTask(asData(standing_.parentTask));
        header.setResultSalt(asData(standing_.resultSalt));
        auto capabilities = header.initCapabilities(static_cast<unsigned>(options_.capabilities.size()));
        for (unsigned index = 0; index < capabilities.size(); ++index) {
            capabilities[index].setName(options_.capabilities[index].name);
            capabilities[index].setAmount(options_.capabilities[index].amount);
        }
        batch.setFunctions(asData(functions_));
        batch.setIds(asData(ids_));
        batch.setFunctionIndexes(asData(functionIndexes_));
        batch.setPartCounts(asData(partCounts_));
        batch.setPartKinds(asData(partKinds_));
        batch.setPartSizes(asData(partSizes_));
    };
}

}  // namespace scaler

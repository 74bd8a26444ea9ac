#include "scaler/batch.h"

#include <kj/exception.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "constants.capnp.h"

namespace scaler {

namespace {

constexpr size_t profileBytes = 24;
constexpr size_t envelopeSpare = 1024;  // of an envelope, for everything but columns

[[noreturn]] void badBatch(const std::string& text, const char* clause = "BAT-2") {
    throw Refusal{BAD_BATCH, clause, text + ": repair the sender"};
}

void checkColumn(std::string_view column, size_t itemBytes, size_t count, const char* name, bool mayBeEmpty = true) {
    if (mayBeEmpty && column.empty()) return;
    if (column.size() != itemBytes * count) {
        badBatch(std::string(name) + " has " + std::to_string(column.size()) + " bytes; " + std::to_string(count) +
                 " items have " + std::to_string(itemBytes * count));
    }
}

std::unordered_set<Id> setOf(const std::vector<Id>& ids, const char* name) {
    std::unordered_set<Id> distinct(ids.begin(), ids.end());
    if (distinct.size() != ids.size()) badBatch(std::string("an id comes twice in ") + name);
    return distinct;
}

void checkCount(size_t count, const Limits& limits) {
    if (count == 0) badBatch("there is nothing in the batch");
    if (count > limits.batchTasks) {
        throw Refusal{TOO_LARGE, "BAT-4", "the batch has " + std::to_string(count) + " tasks: cut it smaller"};
    }
}

// Cuts a payload into values, one after the other.
class Cutter {
public:
    explicit Cutter(const Bytes& payload) : payload_(payload) {}
    Bytes next(size_t size) {
        if (size > payload_.size() - at_) badBatch("sizes add up to more than the payload");
        at_ += size;
        return payload_.substr(at_ - size, size);
    }
    void finish() const {
        if (at_ != payload_.size()) badBatch("sizes add up to less than the payload");
    }

private:
    const Bytes& payload_;
    size_t at_ = 0;
};

// The columns of a Dispatch, each read once.
struct Columns {
    explicit Columns(TaskBatch::Reader batch)
        : functions(idsOf(toBytes(batch.getFunctions()))),
          ids(idsOf(toBytes(batch.getIds()))),
          functionIndexes(toBytes(batch.getFunctionIndexes())),
          partCounts(toBytes(batch.getPartCounts())),
          partKinds(toBytes(batch.getPartKinds())),
          partSizes(toBytes(batch.getPartSizes())),
          attempts(toBytes(batch.getAttempts())),
          inputIds(idsOf(toBytes(batch.getInputIds()))),
          inputKinds(toBytes(batch.getInputKinds())),
          inputSizes(toBytes(batch.getInputSizes())),
          taskFlags(toBytes(batch.getTaskFlags())),
          awaitedCounts(toBytes(batch.getAwaitedCounts())),
          awaited(idsOf(toBytes(batch.getAwaited()))) {}

    std::vector<Id> functions, ids;
    Bytes functionIndexes, partCounts, partKinds, partSizes, attempts;
    std::vector<Id> inputIds;
    Bytes inputKinds, inputSizes, taskFlags, awaitedCounts;
    std::vector<Id> awaited;
};

size_t totalOf(const Bytes& counts, size_t rows, uint16_t otherwise) {
    size_t total = 0;
    for (size_t row = 0; row < rows; ++row) total += numberAtOr<uint16_t>(counts, row, otherwise);
    return total;
}

void checkColumns(TaskBatch::Reader batch, const Columns& columns, const Limits& limits) {
    size_t count = columns.ids.size();
    checkCount(count, limits);
    if (batch.hasDependencyCounts() && batch.getDependencyCounts().size() > 0) {
        badBatch("dependencyCounts belongs to Submit", "BAT-5");
    }
    if (batch.hasDependencies() && batch.getDependencies().size() > 0) {
        badBatch("dependencies belongs to Submit", "BAT-5");
    }
    if (batch.getKeySizes().size() > 0 || batch.getKeys().size() > 0) badBatch("keys belong to Submit", "BAT-5");
    if (columns.functions.empty() || columns.functions.size() > 65535) badBatch("functions has none, or too many");
    checkColumn(columns.functionIndexes, 2, count, "functionIndexes");
    checkColumn(columns.partCounts, 2, count, "partCounts");
    checkColumn(columns.attempts, 2, count, "attempts");
    checkColumn(columns.taskFlags, 1, count, "taskFlags");
    checkColumn(columns.awaitedCounts, 2, count, "awaitedCounts");
    size_t parts = totalOf(columns.partCounts, count, 1);
    checkColumn(columns.partKinds, 1, parts, "partKinds");
    checkColumn(columns.partSizes, 4, parts, "partSizes", parts == 0);
    checkColumn(columns.inputKinds, 1, columns.inputIds.size(), "inputKinds");
    checkColumn(columns.inputSizes, 4, columns.inputIds.size(), "inputSizes", columns.inputIds.empty());
    if (totalOf(columns.awaitedCounts, count, 0) != columns.awaited.size()) badBatch("awaitedCounts do not add up to awaited");
    setOf(columns.ids, "ids");
    setOf(columns.inputIds, "inputIds");
}

std::shared_ptr<const Header> headerOf(TaskHeader::Reader from) {
    auto header = std::make_shared<Header>();
    header->client = toBytes(from.getClient());
    header->callFormat = from.getCallFormat();
    for (auto keyword : from.getKeywords()) header->keywords.push_back(toString(keyword));
    header->depth = from.getDepth();
    header->priority = from.getPriority();
    header->flags = from.getFlags();
    header->timeoutSeconds = from.getTimeoutSeconds();
    header->resultSalt = toBytes(from.getResultSalt());
    header->ownerGrant = toBytes(from.getOwnerGrant());
    header->generation = from.getGeneration();
    return header;
}

Part readPart(Cutter& cutter, uint8_t kind, size_t size) {
    if (kind > KIND_TASK) badBatch("kind " + std::to_string(kind) + " of a part is not known");
    if (kind != KIND_INLINE && size != idBytes) badBatch("a part that names an id has not 16 bytes", "BAT-8");
    return Part{kind, cutter.next(size)};
}

std::vector<Task> readTasks(const Columns& columns, const std::shared_ptr<const Header>& header, Cutter& cutter) {
    std::vector<Task> tasks;
    size_t part = 0;
    auto awaited = columns.awaited.begin();
    for (size_t row = 0; row < columns.ids.size(); ++row) {
        size_t index = numberAtOr<uint16_t>(columns.functionIndexes, row, 0);
        if (index >= columns.functions.size()) badBatch("a function index lies outside functions");
        Task task{columns.ids[row], numberAtOr<uint16_t>(columns.attempts, row, 1), columns.functions[index], {}, {}, header};
        if (task.attempt == 0) badBatch("an attempt is 0");
        size_t count = numberAtOr<uint16_t>(columns.partCounts, row, 1);
        size_t least = header->callFormat == CALL_PACKED ? 1 : header->keywords.size();
        if (count < least) badBatch("a task has too few parts", "BAT-7");
        for (; count > 0; --count, ++part) {
            task.parts.push_back(readPart(cutter, numberAtOr<uint8_t>(columns.partKinds, part, KIND_INLINE),
                                          numberAt<uint32_t>(columns.partSizes, part)));
        }
        auto end = awaited + numberAtOr<uint16_t>(columns.awaitedCounts, row, 0);
        task.awaited.assign(awaited, end);
        awaited = end;
        tasks.push_back(std::move(task));
    }
    return tasks;
}

std::unordered_map<Id, Part> readInputs(const Columns& columns, Cutter& cutter) {
    std::unordered_map<Id, Part> inputs;
    for (size_t index = 0; index < columns.inputIds.size(); ++index) {
        uint8_t kind = numberAtOr<uint8_t>(columns.inputKinds, index, KIND_INLINE);
        size_t size = numberAt<uint32_t>(columns.inputSizes, index);
        if (kind > KIND_OBJECT) badBatch("kind " + std::to_string(kind) + " of an input is not known");
        if (kind == KIND_OBJECT && size != idBytes) badBatch("an input that names an object has not 16 bytes", "BAT-8");
        inputs.emplace(columns.inputIds[index], Part{kind, cutter.next(size)});
    }
    return inputs;
}

void useInputs(std::vector<Task>& tasks, const std::unordered_map<Id, Part>& inputs) {
    std::unordered_set<Id> used;
    for (Task& task : tasks) {
        for (Part& part : task.parts) {
            if (part.kind != KIND_TASK) continue;
            auto found = inputs.find(part.bytes);
            bool isAwaited = std::count(task.awaited.begin(), task.awaited.end(), part.bytes) > 0;
            if (found == inputs.end() && isAwaited) continue;  // its value will be there when this task begins
            if (found == inputs.end()) badBatch("the input of a TASK part is missing", "BAT-9");
            used.insert(part.bytes);
            part = found->second;
        }
    }
    if (used.size() != inputs.size()) badBatch("an input is there that no part names", "BAT-9");
}

}  // namespace

std::vector<Task> readDispatch(const Message& message, const Limits& limits) {
    auto batch = message.body().getDispatch();
    Columns columns(batch);
    checkColumns(batch, columns, limits);
    Cutter cutter(message.payload());
    std::vector<Task> tasks = readTasks(columns, headerOf(batch.getHeader()), cutter);
    auto inputs = readInputs(columns, cutter);
    cutter.finish();
    useInputs(tasks, inputs);
    return tasks;
}

std::vector<Result> readResults(const Message& message, const Limits& limits) {
    auto batch = message.body().getResults();
    std::vector<Id> ids = idsOf(toBytes(batch.getIds()));
    Bytes attempts = toBytes(batch.getAttempts()), statuses = toBytes(batch.getStatuses());
    Bytes kinds = toBytes(batch.getKinds()), sizes = toBytes(batch.getSizes()), profiles = toBytes(batch.getProfiles());
    size_t count = ids.size();
    checkCount(count, limits);
    checkColumn(attempts, 2, count, "attempts");
    checkColumn(statuses, 1, count, "statuses");
    checkColumn(kinds, 1, count, "kinds");
    checkColumn(sizes, 4, count, "sizes", false);
    checkColumn(profiles, profileBytes, count, "profiles");
    setOf(ids, "ids");
    Cutter cutter(message.payload());
    std::vector<Result> results;
    for (size_t row = 0; row < count; ++row) {
        Result result{ids[row], numberAtOr<uint16_t>(attempts, row, 1), numberAtOr<uint8_t>(statuses, row, 0),
                      numberAtOr<uint8_t>(kinds, row, KIND_INLINE), cutter.next(numberAt<uint32_t>(sizes, row))};
        if (result.attempt == 0) badBatch("an attempt is 0");
        if (result.status > STATUS_REFUSED) badBatch("status " + std::to_string(result.status) + " is not known");
        if (result.kind > KIND_NONE) badBatch("kind " + std::to_string(result.kind) + " of a result is not known");
        if (result.kind == KIND_NONE && result.status == STATUS_SUCCESS) badBatch("a success without a value", "BAT-11");
        if (result.kind == KIND_NONE && !result.value.empty()) badBatch("kind NONE with a value", "BAT-10");
        if (result.kind == KIND_OBJECT && result.value.size() != idBytes) badBatch("an object id has not 16 bytes");
        results.push_back(std::move(result));
    }
    cutter.finish();
    return results;
}

ResultsMessage writeResults(const std::vector<Result>& results, size_t& first, bool hasProfiles, const Limits& limits) {
    Bytes ids, attempts, statuses, kinds, sizes, profiles, payload;
    size_t begin = first;
    constexpr size_t rowBytes = idBytes + 2 + 1 + 1 + 4 + profileBytes;
    for (; first < results.size(); ++first) {
        const Result& result = results[first];
        size_t count = first - begin;
        bool fits = count < limits.batchTasks && (count + 1) * rowBytes + envelopeSpare <= limits.envelopeBytes &&
                    payload.size() + result.value.size() <= limits.payloadFrameBytes;
        if (!fits && count > 0) break;
        ids += result.id;
        append<uint16_t>(attempts, result.attempt);
        append<uint8_t>(statuses, result.status);
        append<uint8_t>(kinds, result.kind);
        append<uint32_t>(sizes, static_cast<uint32_t>(result.value.size()));
        if (hasProfiles) {
            append<uint64_t>(profiles, result.durationNs);
            append<uint64_t>(profiles, result.processorNs);
            append<uint64_t>(profiles, result.peakBytes);
        }
        payload += result.value;
    }
    return ResultsMessage{[=](Body::Builder body) {
                              auto batch = body.initResults();
                              batch.setIds(asData(ids));
                              batch.setAttempts(asData(attempts));
                              batch.setStatuses(asData(statuses));
                              batch.setKinds(asData(kinds));
                              batch.setSizes(asData(sizes));
                              batch.setProfiles(asData(profiles));
                          },
                          std::move(payload)};
}

Bytes writeFailure(const Failure& failure, uint32_t inlineBytes) {
    Failure cut = failure;
    while (true) {
        capnp::MallocMessageBuilder builder;
        auto error = builder.initRoot<TaskError>();
        error.setCode(cut.code);
        error.setTypeName(cut.typeName);
        error.setMessage(cut.message);
        error.setText(cut.text);
        error.setExitCode(cut.exitCode);
        error.setPeakMemoryBytes(cut.peakMemoryBytes);
        Bytes encoded = writeRoot(builder);
        std::string& cuttable = cut.text.empty() ? cut.message : cut.text;  // PAY-2
        if (encoded.size() <= inlineBytes || cuttable.empty()) return encoded;
        cuttable.resize(cuttable.size() / 2);
        while (!cuttable.empty() && (cuttable.back() & 0x80) != 0) cuttable.pop_back();  // never half a character
    }
}

Failure readFailure(const Bytes& encoded, uint8_t status) {
    constexpr uint16_t codes[] = {OK,             TASK_RAISED,    TASK_CANCELED, WORKER_LOST,
                                  PROCESSOR_DIED, TASK_TIMED_OUT, OK};
    Failure failure;
    failure.code = status < std::size(codes) ? codes[status] : OK;
    if (status != STATUS_CANCELED) failure.message = "the reason was not given, or cannot be read";
    if (encoded.empty()) return failure;
    try {
        auto words = wordsOf(encoded);
        capnp::FlatArrayMessageReader reader(words.asPtr());
        auto error = reader.getRoot<TaskError>();
        Failure read{error.getCode(),    toString(error.getTypeName()),  toString(error.getMessage()),
                     toString(error.getText()), error.getExitCode(), error.getPeakMemoryBytes(), {}};
        for (auto worker : error.getWorkers()) read.workers.push_back(toString(worker));
        return read;
    } catch (const kj::Exception&) {
        return failure;
    }
}

}  // namespace scaler

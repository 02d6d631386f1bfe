#include "include/engine_race_c.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/named_options.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/c_handles.h"
#include "engine_race/store.h"

using engine_race::Code;
using engine_race::Guarded;
using engine_race::KeyBytes;
using engine_race::Options;
using engine_race::Status;
using engine_race::Store;
using engine_race::c_api::Answer;
using engine_race::c_api::CallersProgress;
using engine_race::c_api::CopyText;
using engine_race::c_api::NullArgument;
using engine_race::c_api::OptionsOf;
using engine_race::c_api::StoreCall;

namespace {

static_assert(ENGINE_RACE_KEY_BYTES == engine_race::kKeyBytes);
static_assert(ENGINE_RACE_VALUE_BYTES == engine_race::kValueBytes);
static_assert(ENGINE_RACE_MIN_VALUE_BYTES == engine_race::kMinValueBytes);
static_assert(ENGINE_RACE_MAX_VALUE_BYTES == engine_race::kMaxValueBytes);
static_assert(static_cast<int>(Code::kOk) == ENGINE_RACE_OK);
static_assert(static_cast<int>(Code::kNotFound) == ENGINE_RACE_NOT_FOUND);
static_assert(static_cast<int>(Code::kCorruption) == ENGINE_RACE_CORRUPTION);
static_assert(static_cast<int>(Code::kNotSupported) == ENGINE_RACE_NOT_SUPPORTED);
static_assert(static_cast<int>(Code::kInvalidArgument) == ENGINE_RACE_INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::kIOError) == ENGINE_RACE_IO_ERROR);
static_assert(static_cast<int>(Code::kIncomplete) == ENGINE_RACE_INCOMPLETE);
static_assert(static_cast<int>(Code::kTimedOut) == ENGINE_RACE_TIMED_OUT);
static_assert(static_cast<int>(Code::kFull) == ENGINE_RACE_FULL);
static_assert(static_cast<int>(Code::kOutOfMemory) == ENGINE_RACE_OUT_OF_MEMORY);
static_assert(static_cast<int>(Code::kBusy) == ENGINE_RACE_BUSY);
static_assert(static_cast<int>(engine_race::LogLevel::kInfo) == 0);
static_assert(static_cast<int>(engine_race::LogLevel::kWarning) == 1);
static_assert(static_cast<int>(engine_race::LogLevel::kError) == 2);

constexpr size_t kMessageBytes = 1024;

// Of the thread's last failure. The message is cut off where it is longer.
thread_local char error_message[kMessageBytes] = "";
thread_local char error_path[PATH_MAX] = "";
thread_local int error_number = 0;

template <size_t to_bytes>
void KeepText(std::string_view from, char (&to)[to_bytes]) {
  const size_t size = std::min(from.size(), to_bytes - 1);
  from.copy(to, size);
  to[size] = '\0';
}

void KeepFailure(std::string_view message, int error, std::string_view path) {
  KeepText(message, error_message);
  // A part of a path would name something else.
  KeepText(path.size() < sizeof(error_path) ? path : std::string_view(), error_path);
  error_number = error;
}

// Of the thread; null: its calls tell nobody of their progress.
thread_local engine_race_progress_fn progress_function = nullptr;
thread_local void* progress_argument = nullptr;

int Write(const StoreCall& call, uint64_t key, const void* value) {
  const std::string_view bytes(static_cast<const char*>(value), call->value_bytes());
  return Answer(Guarded([&] { return call->Write(KeyBytes(key).view(), bytes); }));
}

int Delete(const StoreCall& call, uint64_t key) {
  return Answer(Guarded([&] { return call->Delete(KeyBytes(key).view()); }));
}

// Calls change(i) for the numbers below `count`. *done, if not null, is how many calls succeeded.
template <typename ChangeFn>
int ChangeMany(size_t count, size_t* done, const ChangeFn& change) {
  constexpr size_t kPieceRecords = 256;
  const engine_race::ProgressFn on_progress = CallersProgress();
  engine_race::SharedProgress progress(on_progress, count);
  for (size_t i = 0; i < count; ++i) {
    const int code = change(i);
    if (code != ENGINE_RACE_OK) return code;
    if (done != nullptr) *done = i + 1;
    const size_t in_piece = i % kPieceRecords + 1;
    if (in_piece != kPieceRecords && i + 1 != count) continue;
    const Status told = progress.Add(in_piece);
    if (!told.ok()) return Answer(told);
  }
  return ENGINE_RACE_OK;
}

}  // namespace

namespace engine_race::c_api {

int Answer(const Status& status) {
  if (!status.ok()) KeepFailure(status.message(), status.error(), status.path());
  return static_cast<int>(status.code());
}

int BadArgument(const char* why) {
  KeepFailure(why, 0, {});
  return ENGINE_RACE_INVALID_ARGUMENT;
}

int NullArgument() { return BadArgument("a null argument"); }

ProgressFn CallersProgress() {
  const engine_race_progress_fn progress = progress_function;
  if (progress == nullptr) return {};
  return [progress, argument = progress_argument](uint64_t done_count, uint64_t most_count) {
    // Calls within the function would call it again, with counts of their own.
    progress_function = nullptr;
    const bool goes_on = progress(argument, done_count, most_count) == 0;
    progress_function = progress;
    progress_argument = argument;
    return goes_on;
  };
}

Options OptionsOf(const engine_race_options* options) {
  return options == nullptr ? Options() : options->options;
}

Status CopyText(const std::string& text, char** copy) {
  *copy = strdup(text.c_str());
  return *copy == nullptr ? Status::OutOfMemory("memory was refused") : Status::Ok();
}

bool IsStructSize(size_t struct_bytes, size_t first_bytes) {
  constexpr size_t kMostBytes = 4096;
  return struct_bytes >= first_bytes && struct_bytes <= kMostBytes;
}

}  // namespace engine_race::c_api

extern "C" {

#define ENGINE_RACE_TEXT_OF(number) #number
#define ENGINE_RACE_TEXT(number) ENGINE_RACE_TEXT_OF(number)

const char* engine_race_version(void) {
  return ENGINE_RACE_TEXT(ENGINE_RACE_VERSION_MAJOR) "." ENGINE_RACE_TEXT(
      ENGINE_RACE_VERSION_MINOR) "." ENGINE_RACE_TEXT(ENGINE_RACE_VERSION_PATCH);
}

const char* engine_race_code_name(int code) {
  if (code < ENGINE_RACE_OK || code > ENGINE_RACE_BUSY) return "unknown code";
  // The names are literals.
  return engine_race::CodeName(static_cast<Code>(code)).data();
}

const char* engine_race_error_message(void) { return error_message; }

int engine_race_error_number(void) { return error_number; }

const char* engine_race_error_path(void) { return error_path; }

void engine_race_set_progress(engine_race_progress_fn progress, void* argument) {
  progress_function = progress;
  progress_argument = argument;
}

void engine_race_free(void* memory) { free(memory); }

uint64_t engine_race_key(const void* key_bytes) {
  return key_bytes == nullptr ? 0 : engine_race::DecodeKey(static_cast<const char*>(key_bytes));
}

void engine_race_key_bytes(uint64_t key, void* key_bytes) {
  if (key_bytes != nullptr) engine_race::EncodeKey(key, static_cast<char*>(key_bytes));
}

engine_race_options* engine_race_options_create(void) {
  engine_race_options* made = nullptr;
  (void)Guarded([&] {
    made = new engine_race_options;
    return Status::Ok();
  });
  return made;
}

void engine_race_options_destroy(engine_race_options* options) { delete options; }

const char* engine_race_option_name(size_t index) {
  if (index >= engine_race::NamedOptionCount()) return nullptr;
  // The names are literals.
  return engine_race::OptionName(index).data();
}

int engine_race_options_set(engine_race_options* options, const char* name, const char* value) {
  if (options == nullptr || name == nullptr || value == nullptr) return NullArgument();
  return Answer(Guarded([&] { return engine_race::SetOption(name, value, &options->options); }));
}

int engine_race_options_get(const engine_race_options* options, const char* name, char** value) {
  if (options == nullptr || name == nullptr || value == nullptr) return NullArgument();
  *value = nullptr;
  return Answer(Guarded([&] {
    std::string text;
    ENGINE_RACE_RETURN_IF_ERROR(engine_race::GetOption(name, options->options, &text));
    return CopyText(text, value);
  }));
}

int engine_race_options_set_log(engine_race_options* options, engine_race_log_fn log,
                                void* argument) {
  if (options == nullptr) return NullArgument();
  return Answer(Guarded([&] {
    options->options.log = nullptr;
    if (log == nullptr) return Status::Ok();
    options->options.log = [log, argument](engine_race::LogLevel level, std::string_view message) {
      char text[kMessageBytes];
      KeepText(message, text);
      log(argument, static_cast<int>(level), text);
    };
    return Status::Ok();
  }));
}

int engine_race_open(const char* directory, const engine_race_options* options,
                     engine_race_store** store) {
  if (store == nullptr) return NullArgument();
  *store = nullptr;
  if (directory == nullptr) return NullArgument();
  return Answer(Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(engine_race::c_api::CountForks());
    auto made = std::make_unique<engine_race_store>();
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(OptionsOf(options), directory, &made->store));
    *store = made.release();
    return Status::Ok();
  }));
}

uint32_t engine_race_value_bytes(const engine_race_store* store) {
  // A call counts itself in the handle. No handle is const: all are made by engine_race_open.
  const StoreCall call(const_cast<engine_race_store*>(store));
  return call.ok() ? call->value_bytes() : 0;
}

int engine_race_close(engine_race_store* store) { return engine_race::c_api::Close(store); }

int engine_race_write(engine_race_store* store, uint64_t key, const void* value) {
  if (value == nullptr) return NullArgument();
  const StoreCall call(store);
  return call.ok() ? Write(call, key, value) : call.Refused();
}

int engine_race_delete(engine_race_store* store, uint64_t key) {
  const StoreCall call(store);
  return call.ok() ? Delete(call, key) : call.Refused();
}

int engine_race_read(engine_race_store* store, uint64_t key, void* value) {
  if (value == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return call->ReadInto(key, static_cast<char*>(value)); }));
}

int engine_race_write_many(engine_race_store* store, size_t count, const uint64_t* keys,
                           const void* values, size_t* written) {
  if (written != nullptr) *written = 0;
  if (count > 0 && (keys == nullptr || values == nullptr)) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  const char* const rows = static_cast<const char*>(values);
  const size_t value_bytes = call->value_bytes();
  return ChangeMany(count, written,
                    [&](size_t i) { return Write(call, keys[i], rows + i * value_bytes); });
}

int engine_race_delete_many(engine_race_store* store, size_t count, const uint64_t* keys,
                            size_t* deleted) {
  if (deleted != nullptr) *deleted = 0;
  if (count > 0 && keys == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return ChangeMany(count, deleted, [&](size_t i) { return Delete(call, keys[i]); });
}

int engine_race_read_many(engine_race_store* store, size_t count, const uint64_t* keys,
                          void* values, int* codes) {
  if (count > 0 && (keys == nullptr || values == nullptr || codes == nullptr)) {
    return NullArgument();
  }
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  static_assert(sizeof(Code) == sizeof(int));
  const std::span<Code> answers(reinterpret_cast<Code*>(codes), count);
  return Answer(Guarded([&] {
    return call->MultiReadInto({keys, count}, static_cast<char*>(values), answers,
                               CallersProgress());
  }));
}

int engine_race_read_async(engine_race_store* store, uint64_t key, void* value,
                           engine_race_done_fn done, void* argument) {
  if (value == nullptr || done == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    return call->ReadAsyncInto(
        key, static_cast<char*>(value),
        [done, argument](const Status& status) { done(argument, Answer(status)); });
  }));
}

int engine_race_sync(engine_race_store* store) {
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return call->Sync(); }));
}

int engine_race_refresh(engine_race_store* store) {
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return call->Refresh(); }));
}

int engine_race_compact(engine_race_store* store) {
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return call->Compact(CallersProgress()); }));
}

}  // extern "C"

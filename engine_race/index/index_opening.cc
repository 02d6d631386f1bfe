// The opening of an index: which buckets are restored or built, when, and by which call.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/index/bucket_builder.h"
#include "engine_race/index/build.h"
#include "engine_race/index/giant_build.h"
#include "engine_race/index/index.h"
#include "engine_race/index/index_impl.h"
#include "engine_race/index/index_restore.h"
#include "engine_race/log/follower.h"

namespace engine_race {
namespace {

// Of the restorer. Few, because calls that need a bucket now should not wait long behind reads of
// other buckets. Where buckets must be built, which takes CPU time, there are as many as in a whole
// build, but some loads are left to calls.
constexpr uint32_t kBackgroundThreads = 4;
constexpr uint32_t kCallers = 4;

// Holds one of the permits while it lives.
class Permit {
 public:
  explicit Permit(std::counting_semaphore<>* permits) : permits_(*permits) { permits_.acquire(); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;
  ~Permit() { permits_.release(); }

 private:
  std::counting_semaphore<>& permits_;
};

}  // namespace

Status Index::Open(Opening opening) {
  BucketLog& log = *impl_->log;
  Paging* const paging = impl_->paging.get();
  const uint32_t threads =
      BuildThreadCount(log, impl_->options, paging->WouldPage(log.RecordCount()));
  const bool waits = opening == Opening::kMayWait && (log.RecordCount() > 0 || log.follows());
  BuildLimits limits = BuildLimits::For(impl_->options, waits ? Impl::kLoads : threads);
  // Builders of waiting buckets read none ahead.
  if (waits) limits.window_buckets = 1;
  auto context = std::make_unique<BuildContext>(&log, this, impl_->options, limits, threads,
                                                impl_->all(), &impl_->unread);
  context->set_paging(paging);
  l1::IndexRoot root;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIndexRoot(context.get(), paging, &root));
  if (!waits) {
    paging->store().DropUnnamed();
    IndexRestore restore(context.get(), paging, &root);
    const Status restored = Guarded([&] { return restore.RestoreAll(); });
    if (!restored.ok()) context->Undo();
    ENGINE_RACE_RETURN_IF_ERROR(restored);
    ENGINE_RACE_RETURN_IF_ERROR(BuildAllBuckets(context.get()));
  } else {
    auto waiting = std::make_unique<Impl::WaitingRestore>(std::move(context), paging, root);
    waiting->thread_count = waiting->restore.MayRestoreAll()
                                ? kBackgroundThreads
                                : std::min(threads, Impl::kLoads - kCallers);
    ENGINE_RACE_RETURN_IF_ERROR(impl_->LetBucketsWait(waiting.get(), &root));
    impl_->waiting_restore = std::move(waiting);
  }
  // Only now, so that a build that fails has the buckets for itself.
  impl_->roots = std::make_unique<RootWriter>(&log, impl_->options.file_mode, impl_->all(), paging,
                                              std::move(root));
  return waits ? Status::Ok() : StartKeeper();
}

// Lets all buckets wait but those with damaged counts. RestoreOne does not restore these: it gives
// back the space of their extents. They stay unreadable, unless another process may repair them.
Status Index::Impl::LetBucketsWait(WaitingRestore* waiting, l1::IndexRoot* root) {
  for (uint32_t b = 0; b < geometry.bucket_count; ++b) {
    if (!log->BucketDamaged(b) || log->follows()) {
      buckets[b].MarkWaiting();
      unread.AddWaiting(b);
      continue;
    }
    bool restored = false;
    ENGINE_RACE_RETURN_IF_ERROR(waiting->restore.RestoreOne(b, &restored));
    root->coverages[b] = {};
    buckets[b].MarkUnreadable();
  }
  return Status::Ok();
}

Status Index::StartKeeper() {
  return Guarded([this] {
    Impl& impl = *impl_;
    const auto lose = [this](uint32_t bucket, const Status& why) {
      const BucketIndex& lost = impl_->buckets[bucket];
      Lose(bucket, why, [&lost] { return lost.is_extent_lost(); });
    };
    impl.keeper = std::make_unique<IndexKeeper>(
        impl.log, impl.options, impl.all(), impl.shared.get(), impl.roots.get(), lose, impl.reads);
    // Release: pairs with the load in ReadyKeeper.
    impl.ready_keeper.store(impl.keeper.get(), std::memory_order_release);
    const Paging& paging = *impl.paging;
    const bool has_work = paging.HasRunsToPage() || paging.HasLargeDeltas() ||
                          paging.has_requests() || paging.NextTry() || impl.shared->sweep_is_due();
    if (impl.options.index_idle_ms != 0 || has_work) impl.keeper->Wake();
    return Status::Ok();
  });
}

bool Index::needs_restore_rest() const { return impl_->waiting_restore != nullptr; }

void Index::RestoreRest() noexcept {
  const auto load = [this](uint32_t bucket) {
    return Guarded([&] {
      // Reads beside this fill frames with memory that the next buckets need: Bring takes it back.
      // A failed attempt was logged.
      (void)Bring(bucket);
      return Status::Ok();
    });
  };
  Impl::WaitingRestore& waiting = *impl_->waiting_restore;
  const Status all =
      Guarded([&] { return waiting.restore.ForEachBucket(waiting.thread_count, load); });
  if (!all.ok()) {
    // Without memory for threads. The buckets that they loaded are not loaded again.
    for (uint32_t b = 0; b < impl_->geometry.bucket_count; ++b) (void)load(b);
  }
  if (!impl_->log->follows()) {
    waiting.builders.Drop();
    waiting.restore.DropReads();
  }
  (void)Guarded([&] {
    waiting.restore.Report();
    return Status::Ok();
  });
  (void)StartKeeper();  // where memory for it is refused, Close tries again, and nothing is swept
  // Last: reads and restores need not wait for it.
  impl_->paging->store().DropUnnamed();
}

// Beside a writer the bucket may have changed once more each time.
int Index::max_loads() const { return impl_->log->follows() ? Follower::kBucketTries : kMaxLoads; }

Status Index::Bring(uint32_t bucket) const {
  if (impl_->log->follows()) {
    ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] {
      DropHidden(bucket);
      return Status::Ok();
    }));
  }
  const Status status = impl_->unread.Load(bucket, [this, bucket](uint64_t* record_count) {
    const Permit permit(&impl_->load_permits);
    return ReadBucket(bucket, record_count);
  });
  Paging& paging = *impl_->paging;
  paging.FitFrames();
  IndexKeeper* const keeper = impl_->ReadyKeeper();
  if (keeper != nullptr && (paging.HasRunsToPage() || paging.NextTry())) keeper->Wake();
  return status;
}

Status Index::ReadBucket(uint32_t bucket, uint64_t* record_count) const {
  BucketIndex& index = impl_->buckets[bucket];
  const bool rests = index.rests();
  // No view is older than the first attempt of a waiting bucket, so nothing is hidden from any.
  const bool is_first = *record_count == UnreadBuckets::kWaitingCount;
  bool restored = false;
  Status status;
  if (is_first) {
    // A later attempt compares with this count: it finds out whether records came in between.
    *record_count = impl_->log->RecordCount(bucket);
    status = impl_->waiting_restore->restore.RestoreOne(bucket, &restored);
    if (!restored) impl_->roots->Forget(bucket);
  }
  if (status.ok() && !restored) status = BuildWhole(bucket, is_first, *record_count);
  if (!status.ok()) {
    if (is_first) {
      // The call may try again at once, and succeed.
      Log(impl_->options.log, LogLevel::kError, status.ToString());
      index.NoteFailedAttempt();
    }
    return status;
  }
  if (restored) Admit(bucket, is_first, *record_count);
  if (rests) impl_->paging->faults().BeginRest(&index);
  return Status::Ok();
}

// From here on the listener is told of each append. False: the log has detached it meanwhile.
bool Index::Admit(uint32_t bucket, bool is_first, uint64_t record_count) const {
  // Views of the new version come later. Rows that records were moved to meanwhile may be younger
  // than older views, which would not keep them.
  if (!is_first &&
      (impl_->log->RecordCount(bucket) != record_count || impl_->log->HasRows(bucket))) {
    impl_->unread.HideFromOlder(bucket, views().StampWrite().version);
  }
  BucketIndex& index = impl_->buckets[bucket];
  if (impl_->log->follows()) return impl_->log->reader().IfAttached(bucket, [&] { index.Admit(); });
  index.Admit();
  return true;
}

// Builds the bucket from its key log and admits it. If another process writes the store, it may use
// slots again while they are read, or move records.
Status Index::BuildWhole(uint32_t bucket, bool is_first, uint64_t record_count) const {
  Status status;
  for (int i = 0; i < Follower::kBucketTries; ++i) {
    status = Guarded([&] { return BuildFromLog(bucket, is_first); });
    if (status.code() == Code::kBusy) continue;
    if (!status.ok() || Admit(bucket, is_first, record_count)) return status;
    impl_->buckets[bucket].Forget();
    status = Status(Code::kBusy, "the bucket has changed");
  }
  return Status::IOError("bucket " + std::to_string(bucket) +
                         " is written faster than it can be read: " + status.message());
}

Status Index::BuildFromLog(uint32_t bucket, bool is_first) const {
  // Beside a writer buckets are built again and again, so the builders are kept.
  const bool keeps_builder = is_first || impl_->log->follows();
  Impl::WaitingRestore* const waiting = keeps_builder ? impl_->waiting_restore.get() : nullptr;
  std::optional<BuildContext> own;
  if (!keeps_builder) {
    // The cast is sound: the index is the log's listener, and Build had it as non-const.
    own.emplace(impl_->log, const_cast<Index*>(this), impl_->options,
                BuildLimits::For(impl_->options, Impl::kLoads), /*thread_count=*/1, impl_->all(),
                &impl_->unread);
    if (impl_->buckets[bucket].may_be_paged()) own->set_paging(impl_->paging.get());
  }
  BuildContext& context = keeps_builder ? *waiting->context : *own;
  // Decided once: the bucket may grow meanwhile.
  const bool is_giant = context.IsGiant(bucket);
  // The memory that sorts a giant is that of one, and so are the threads of a context.
  std::unique_lock giant(impl_->giant_mutex, std::defer_lock);
  if (is_giant) giant.lock();
  return BuildBucket(&context, bucket, [&] {
    if (is_giant) return BuildGiant(&context, bucket);
    if (keeps_builder) return waiting->Build(bucket);
    BucketBuilder builder(&context, impl_->log->SlotEnd(bucket));
    ENGINE_RACE_RETURN_IF_ERROR(builder.Init());
    return builder.Build(bucket);
  });
}

Status Index::Impl::WaitingRestore::Build(uint32_t bucket) {
  std::unique_ptr<BucketBuilder> builder = builders.Take();
  if (builder == nullptr) {
    // As many builders as loads share the records.
    builder =
        std::make_unique<BucketBuilder>(context.get(), context->log().RecordCount() / Impl::kLoads);
    ENGINE_RACE_RETURN_IF_ERROR(builder->Init());
  }
  ENGINE_RACE_RETURN_IF_ERROR(builder->Build(bucket));
  builders.Give(std::move(builder));
  return Status::Ok();
}

}  // namespace engine_race

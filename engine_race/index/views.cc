#include "engine_race/index/views.h"

#include <new>

namespace engine_race {

struct ViewRegistry::Slot {};

struct ViewRegistry::Impl {
  std::atomic<uint64_t> epoch{1};
  std::atomic<uint64_t> count{1};  // the store's own included
  std::atomic<bool> closed{false};
};

ViewRegistry::ViewRegistry() : impl_(new Impl) {}
ViewRegistry::~ViewRegistry() { delete impl_; }

Status ViewRegistry::Create(ViewRegistry** registry) {
  *registry = new ViewRegistry;
  return Status::Ok();
}

void ViewRegistry::Close() noexcept {
  impl_->closed.store(true);
  if (impl_->count.fetch_sub(1) == 1) delete this;
}

bool ViewRegistry::closed() const { return impl_->closed.load(); }

Status ViewRegistry::Take(View* view) { return TakeAt(impl_->epoch.fetch_add(1), view); }

Status ViewRegistry::TakeAt(uint64_t epoch, View* view) {
  impl_->count.fetch_add(1);
  *view = {this, nullptr, epoch};
  return Status::Ok();
}

void ViewRegistry::Renew(View* view) noexcept {
  view->epoch = view->registry->impl_->epoch.fetch_add(1);
}

void ViewRegistry::RenewAt(uint64_t epoch, View* view) noexcept { view->epoch = epoch; }

void ViewRegistry::Release(View* view) noexcept {
  if (view->registry == nullptr) return;
  if (view->registry->impl_->count.fetch_sub(1) == 1) delete view->registry;
  *view = View();
}

ViewRegistry::Census ViewRegistry::TakeCensus() const {
  Census census;
  census.count = impl_->count.load() - 1;
  return census;
}

}  // namespace engine_race

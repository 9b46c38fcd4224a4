#include "emulator/memory/heap.h"

#include <iterator>

namespace kiln::emulator {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t Heap::taken(std::uint64_t bytes) {
  // At least 16 bytes lie between neighbours, so that an access behind one shows under checks.
  return bytes > kLargestShared ? round_up(bytes, kPage) : round_up(bytes + 16, kAlignment);
}

Heap::~Heap() { clear(); }

bool Heap::map_pages(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t offset = address - window_.first();
  bool mapped = place_ != Window::kHost ||
                window_.map(Window::kHost, address, bytes, file_.descriptor(), offset, true);
  for (std::uint32_t device = 0; device < window_.devices() && mapped; ++device)
    if ((reach_ >> device & 1) != 0)
      mapped = window_.map(device, address, bytes, file_.descriptor(), offset, true);
  if (!mapped) unmap_pages(address, bytes);
  return mapped;
}

void Heap::unmap_pages(std::uint64_t address, std::uint64_t bytes) {
  if (place_ == Window::kHost) window_.unmap(Window::kHost, address, bytes);
  for (std::uint32_t device = 0; device < window_.devices(); ++device)
    if ((reach_ >> device & 1) != 0) window_.unmap(device, address, bytes);
  file_.discard(address - window_.first(), bytes);
}

std::optional<Heap::Blocks::iterator> Heap::map_block(std::uint64_t bytes, bool shared) {
  const auto address = addresses_.take(round_up(bytes, kBlock) + kBlock, kBlock);
  if (!address) return std::nullopt;
  if (!map_pages(*address, bytes)) {
    addresses_.add(*address, round_up(bytes, kBlock) + kBlock);
    return std::nullopt;
  }
  reserved_ += bytes;
  return blocks_.emplace(*address, Block{bytes, 0, shared}).first;
}

Heap::Blocks::iterator Heap::unmap_block(Blocks::iterator block) {
  const auto [address, details] = *block;
  unmap_pages(address, details.bytes);
  addresses_.add(address, round_up(details.bytes, kBlock) + kBlock);
  reserved_ -= details.bytes;
  if (details.shared) {
    free_.take_at(address, details.bytes);
    unused_ -= details.bytes;
  }
  return blocks_.erase(block);
}

std::optional<std::uint64_t> Heap::allocate(std::uint64_t bytes) {
  const std::uint64_t needed = taken(bytes);
  if (bytes > kLargestShared) {
    const auto block = map_block(needed, false);
    return block ? std::optional((*block)->first) : std::nullopt;
  }
  auto address = free_.take(needed, kAlignment);
  if (!address) {
    const auto block = map_block(kBlock, true);
    if (!block) return std::nullopt;
    unused_ += kBlock;
    free_.add((*block)->first, kBlock);
    address = free_.take(needed, kAlignment);
  }
  Block& block = std::prev(blocks_.upper_bound(*address))->second;
  if (block.used == 0) unused_ -= block.bytes;
  block.used += needed;
  return address;
}

void Heap::free(std::uint64_t address, std::uint64_t bytes) {
  const auto block = std::prev(blocks_.upper_bound(address));
  if (!block->second.shared) {
    unmap_block(block);
    return;
  }
  free_.add(address, taken(bytes));
  block->second.used -= taken(bytes);
  if (block->second.used != 0) return;
  unused_ += block->second.bytes;
  if (unused_ > keep) unmap_block(block);
}

bool Heap::add_reach(std::uint32_t device) {
  for (const auto& [address, block] : blocks_) {
    if (window_.map(device, address, block.bytes, file_.descriptor(), address - window_.first(),
                    true))
      continue;
    for (const auto& [mapped, details] : blocks_) window_.unmap(device, mapped, details.bytes);
    return false;
  }
  reach_ |= 1u << device;
  return true;
}

void Heap::remove_reach(std::uint32_t device) {
  for (const auto& [address, block] : blocks_) window_.unmap(device, address, block.bytes);
  reach_ &= ~(1u << device);
}

void Heap::trim(std::uint64_t bytes) {
  for (auto block = blocks_.begin(); block != blocks_.end() && reserved_ > bytes;)
    block = block->second.shared && block->second.used == 0 ? unmap_block(block) : std::next(block);
}

void Heap::clear() {
  for (const auto& [address, block] : blocks_) {
    unmap_pages(address, block.bytes);
    addresses_.add(address, round_up(block.bytes, kBlock) + kBlock);
  }
  blocks_.clear();
  free_ = FreeRanges();
  reserved_ = 0;
  unused_ = 0;
}

}  // namespace kiln::emulator

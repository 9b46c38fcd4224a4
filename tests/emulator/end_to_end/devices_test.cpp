#include <algorithm>
#include <numeric>

#include "values.h"

namespace kiln::emulator_test {
namespace {

/// Numbers of one device, small enough for exact sums.
std::vector<float> numbers_of(int rank, int count) {
  std::vector<float> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = static_cast<float>((i * 7 + rank * 13) % 31 - 15);
  return numbers;
}

std::vector<float> sums_of(int devices, int count) {
  std::vector<float> sums(count);
  for (int rank = 0; rank < devices; ++rank) {
    const auto numbers = numbers_of(rank, count);
    for (int i = 0; i < count; ++i) sums[i] += numbers[i];
  }
  return sums;
}

/// Lets every pair of the first devices read and write each other.
void enable_peers(int devices) {
  constexpr Result kAlready = 704;
  for (int i = 0; i < devices; ++i) {
    for (int k = 0; k < devices; ++k) {
      if (i == k) continue;
      const Context peer = use_device(k);
      use_device(i);
      const Result result = driver().enable_peer(peer, 0);
      if (result != kAlready) check(result, "Enabling access to a peer");
    }
  }
}

class Devices : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Devices, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

struct RingMember {
  Module module;
  Array<float> own, inbox;
  Array<int> flag, taken;
  Stream stream;
};

TEST_P(Devices, RingAllReduce) {
  const int devices = GetParam(), count = 8 * 129;
  enable_peers(devices);
  std::vector<RingMember> members;
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    members.push_back({Module(kernel_text("devices.ptx")), Array<float>(numbers_of(rank, count)),
                       Array<float>(count), Array<int>(1), Array<int>(1), Stream()});
  }
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    RingMember& me = members[rank];
    RingMember& right = members[(rank + 1) % devices];
    RingMember& left = members[(rank + devices - 1) % devices];
    launch(me.module.function("ring_all_reduce"), {{1}, {64}, 0, me.stream.handle()}, me.own,
           right.inbox, me.inbox, right.flag, me.flag, left.taken, me.taken, rank, devices, count);
  }
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    members[rank].stream.synchronize();
    EXPECT_EQ(members[rank].own.get(), sums_of(devices, count)) << rank;
  }
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Memory of each of some devices, bound to one multicast object and mapped on all of them: once
/// as the object, once as the device's own.
class Multicast {
 public:
  Multicast(int devices, std::size_t bytes) {
    const MulticastProperties wanted{static_cast<unsigned>(devices), bytes, 0, 0};
    std::size_t unit = 0;
    check(driver().multicast_granularity(&unit, &wanted, 0), "Asking for a granularity");
    bytes_ = rounded_up(bytes, unit);
    MulticastProperties properties = wanted;
    properties.bytes = bytes_;
    check(driver().create_multicast(&object_, &properties), "Creating a multicast object");
    for (int i = 0; i < devices; ++i) {
      check(driver().add_multicast_device(object_, i), "Adding a device");
    }
    for (int i = 0; i < devices; ++i) {
      AllocationProperties own;
      own.location.id = i;
      MemoryHandle handle = 0;
      use_device(i);
      check(driver().create_memory(&handle, bytes_, &own, 0), "Creating memory");
      check(driver().bind_multicast_memory(object_, 0, handle, 0, bytes_, 0), "Binding memory");
      memory_.push_back(handle);
      own_.push_back(map(handle, {i}));
    }
    std::vector<int> all(devices);
    std::iota(all.begin(), all.end(), 0);
    shared_ = map(object_, all);
  }

  ~Multicast() {
    for (Address address : own_) unmap(address);
    unmap(shared_);
    for (MemoryHandle handle : memory_) driver().release_memory(handle);
    driver().release_memory(object_);
  }
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  Address shared() const { return shared_; }
  Address own(int device) const { return own_[device]; }

 private:
  Address map(MemoryHandle handle, const std::vector<int>& devices) const {
    Address address = 0;
    check(driver().reserve_addresses(&address, bytes_, 0, 0, 0), "Reserving addresses");
    check(driver().map_memory(address, bytes_, 0, handle, 0), "Mapping memory");
    std::vector<AccessDescription> access(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) access[i].location.id = devices[i];
    check(driver().set_access(address, bytes_, access.data(), access.size()), "Giving access");
    return address;
  }
  void unmap(Address address) const {
    driver().unmap_memory(address, bytes_);
    driver().free_addresses(address, bytes_);
  }

  std::size_t bytes_ = 0;
  MemoryHandle object_ = 0;
  std::vector<MemoryHandle> memory_;
  std::vector<Address> own_;
  Address shared_ = 0;
};

TEST_P(Devices, MulticastAllReduce) {
  const int devices = GetParam(), count = 4 * 1000;
  const std::size_t arrivals_at = count * sizeof(float);
  const Multicast multicast(devices, arrivals_at + 64);
  std::vector<Module> modules;
  std::vector<Stream> streams;
  const unsigned zero[16] = {};
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    modules.emplace_back(kernel_text("devices.ptx"));
    streams.emplace_back();
    const auto numbers = numbers_of(rank, count);
    check(driver().copy_to_device(multicast.own(rank), numbers.data(), arrivals_at), "Copying");
    check(driver().copy_to_device(multicast.own(rank) + arrivals_at, zero, sizeof zero), "Copying");
  }
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    launch(modules[rank].function("multicast_all_reduce"), {{2}, {64}, 0, streams[rank].handle()},
           multicast.shared(), multicast.shared() + arrivals_at, multicast.own(rank) + arrivals_at,
           rank, devices, count);
  }
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    streams[rank].synchronize();
    std::vector<float> found(count);
    check(driver().copy_to_host(found.data(), multicast.own(rank), arrivals_at), "Copying");
    EXPECT_EQ(found, sums_of(devices, count)) << rank;
  }
}

TEST_P(Devices, MulticastOfOtherTypes) {
  const int devices = GetParam();
  const Multicast multicast(devices, 256);
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    // Words at 0, a long at 64, a pair of halves (1, rank) and one of bfloats (-rank, rank) at 128.
    const std::uint16_t halves[] = {0x3c00, static_cast<std::uint16_t>(0x4000),
                                    static_cast<std::uint16_t>(rank % 2 ? 0xbf80 : 0x3f80),
                                    static_cast<std::uint16_t>(rank == 0 ? 0x4040 : 0x4000)};
    const std::int32_t words[] = {rank % 2 ? -rank : 1 << rank, rank, 0};
    const std::uint64_t number = (std::uint64_t{1} << 32) * rank + 1;
    check(driver().copy_to_device(multicast.own(rank), words, sizeof words), "Copying");
    check(driver().copy_to_device(multicast.own(rank) + 64, &number, 8), "Copying");
    check(driver().copy_to_device(multicast.own(rank) + 128, halves, 8), "Copying");
  }
  use_device(devices - 1);
  const Module module(kernel_text("devices.ptx"));
  const Array<long long> out(6);
  launch(module.function("multicast_kinds"), {{1}, {1}}, multicast.shared(),
         multicast.shared() + 64, multicast.shared() + 128, out);
  synchronize();
  std::uint32_t sum = 0, any = 0;
  std::int32_t least = 1;
  for (int rank = 0; rank < devices; ++rank) {
    const std::int32_t word = rank % 2 ? -rank : 1 << rank;
    sum += static_cast<std::uint32_t>(word);
    any |= static_cast<std::uint32_t>(word);
    least = std::min(least, word);
  }
  const std::uint64_t longs =
      (std::uint64_t{1} << 32) * (devices * (devices - 1) / 2) + static_cast<unsigned>(devices);
  // Sums of `devices` ones and twos in halves: 2, 4, 8 and twice that. Greatest: 1 and 3.
  const std::uint32_t one = devices == 2 ? 0x4000 : devices == 4 ? 0x4400 : 0x4800;
  const std::vector<long long> expected = {sum,
                                           least,
                                           any,
                                           static_cast<long long>(longs),
                                           one | (one + 0x400) << 16,
                                           0x3f80 | 0x4040 << 16};
  EXPECT_EQ(out.get(), expected);
  for (int rank = 0; rank < devices; ++rank) {
    use_device(rank);
    std::int32_t words[3] = {};
    check(driver().copy_to_host(words, multicast.own(rank), sizeof words), "Copying");
    EXPECT_EQ(words[1], 1000) << rank;
    EXPECT_EQ(words[2], 4242) << rank;
  }
}

}  // namespace
}  // namespace kiln::emulator_test

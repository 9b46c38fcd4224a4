#include "kiln/runtime/artifact.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kiln/runtime/abi.h"
#include "kiln/runtime/artifact_format.h"
#include "kiln/runtime/checksum.h"
#include "kiln/runtime/host_cpu.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/json_reader.h"

namespace kiln::runtime {
namespace {

using namespace format_v1;

/// Of kReadingMemory, what strings under way and messages take.
constexpr std::uint64_t kReadingReserve = 256 << 10;

std::string system_text(int error) { return std::generic_category().message(error); }

[[noreturn]] void throw_unreadable(const std::string& path, std::string_view reason) {
  throw RuntimeError(format("cannot read '{}': {}", path, reason));
}
[[noreturn]] void throw_unreadable(const std::string& path, int error) {
  throw_unreadable(path, system_text(error));
}

std::uint64_t get(const std::byte* at, int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= static_cast<std::uint64_t>(std::to_integer<unsigned>(at[i])) << (8 * i);
  return value;
}

/// A file that is open for reading, with its length.
struct OpenFile {
  explicit OpenFile(const std::string& path) {
    const OpenedFile opened = open_regular_file(path, O_RDONLY);
    if (opened.fd < 0) throw_unreadable(path, opened.reason);
    fd = opened.fd;
    struct stat status;
    if (::fstat(fd, &status) != 0) {
      const int error = errno;
      ::close(fd);
      throw_unreadable(path, error);
    }
    length = static_cast<std::uint64_t>(status.st_size);
  }
  ~OpenFile() { ::close(fd); }
  OpenFile(const OpenFile&) = delete;

  std::size_t read_at(const std::string& path, std::uint64_t offset, std::span<std::byte> into) {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t n =
          ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_unreadable(path, errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

  int fd = -1;
  std::uint64_t length = 0;
};

std::string length_reason(const std::string& name, std::uint64_t stated, std::uint64_t actual) {
  if (actual < stated)
    return format("'{}' is truncated: it should have {} bytes but has {}", name, stated, actual);
  return format("'{}' has {} bytes, more than the {} it states", name, actual, stated);
}

/// What must hold between the section table and the file; the first reason that does not.
std::optional<std::string> section_reason(const ArtifactHeader& header, const std::string& name,
                                          std::uint64_t header_end, std::uint64_t file_length) {
  std::uint64_t end = header_end;
  std::uint64_t weights_length = 0;
  for (std::size_t i = 0; i < header.sections.size(); ++i) {
    const SectionInfo& section = header.sections[i];
    std::uint64_t section_end;
    if (__builtin_add_overflow(section.offset, section.length, &section_end))
      return format("'{}' is corrupted: section {} is too long", name, i);
    if (section_end > file_length) return length_reason(name, section_end, file_length);
    if (section.offset < end)
      return format("'{}' is corrupted: section {} ({}) overlaps what comes before it", name, i,
                    section.kind);
    if (section.offset % section_alignment(section.kind) != 0)
      return format("'{}' is corrupted: section {} ({}) is not aligned", name, i, section.kind);
    if (section.kind == "weights") {
      if (weights_length != 0) return format("'{}' is corrupted: two sections of weights", name);
      weights_length = section.length;
    }
    end = section_end;
  }
  if (end != file_length)
    return format("'{}' is corrupted: {} bytes belong to no section", name, file_length - end);
  for (const WeightSignature& weight : header.weights) {
    if (!weight.offset) continue;
    const std::uint64_t bytes = packed_bytes(weight.dtype, weight.shape);
    std::uint64_t weight_end;
    if (__builtin_add_overflow(*weight.offset, bytes, &weight_end) || weight_end > weights_length)
      return format("'{}' is corrupted: weight '{}' lies outside the section of weights", name,
                    weight.name);
    if (*weight.offset % static_cast<std::uint64_t>(weight.alignment) != 0)
      return format("'{}' is corrupted: weight '{}' is not aligned", name, weight.name);
  }
  return std::nullopt;
}

/// Reads the prefix and the header. `header_bytes(length)` returns that many bytes from offset 32,
/// which the file has.
template <typename HeaderBytes>
HeaderReport report(const std::string& name, std::span<const std::byte> prefix,
                    std::uint64_t file_length, HeaderBytes header_bytes) {
  HeaderReport out;
  auto add = [&](std::string reason) { out.reasons.push_back(std::move(reason)); };
  if (prefix.size() < sizeof kMagic || std::memcmp(prefix.data(), kMagic, sizeof kMagic) != 0) {
    add(format("'{}' is not a MEF file", name));
    return out;
  }
  if (prefix.size() < kPrefixBytes) {
    add(length_reason(name, kPrefixBytes, file_length));
    return out;
  }
  const int major = static_cast<int>(get(prefix.data() + 8, 2));
  const int minor = static_cast<int>(get(prefix.data() + 10, 2));
  const std::uint64_t header_length = get(prefix.data() + 12, 4);
  const std::uint64_t stated = get(prefix.data() + 16, 8);
  const std::uint64_t header_end = kPrefixBytes + header_length;
  if (stated != file_length) add(length_reason(name, stated, file_length));
  bool header_good = false;
  std::span<const std::byte> bytes;
  if (header_end > file_length) {
    if (stated == file_length) add(length_reason(name, header_end, file_length));
  } else {
    bytes = header_bytes(header_length);
    header_good = checksum(bytes) == get(prefix.data() + 24, 8);
    if (!header_good)
      add(format("'{}' is corrupted: the checksum of the header does not match", name));
  }
  out.readable = out.reasons.empty();
  const bool foreign = major != kFormatMajor || minor > kFormatMinor;
  if (header_good && major == kFormatMajor) {
    try {
      ArtifactHeader header =
          parse_header(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                       file_length + kReadingMemory - kReadingReserve);
      header.format_major = major;
      header.format_minor = minor;
      out.header = std::move(header);
    } catch (const Error& error) {
      add(format("'{}' is corrupted: {}", name, error.message()));
    }
  }
  if (out.header && stated == file_length)
    if (auto reason = section_reason(*out.header, name, header_end, file_length)) {
      add(std::move(*reason));
      out.header->sections.clear();
    }
  if (foreign)
    add(format("'{}' uses MEF format {}.{}; this kiln reads {}.0 to {}.{}", name, major, minor,
               kFormatMajor, kFormatMajor, kFormatMinor));
  return out;
}

HeaderReport report(std::span<const std::byte> bytes, const std::string& name) {
  return report(name, bytes.first(std::min(bytes.size(), kPrefixBytes)), bytes.size(),
                [&](std::uint64_t length) { return bytes.subspan(kPrefixBytes, length); });
}

std::string missing_features(const CpuTarget& target) {
  const std::string architecture = target.triple.substr(0, target.triple.find('-'));
  std::vector<std::string> missing;
  if (architecture != host_architecture()) return architecture;
  for (const std::string& feature : target.features)
    if (!host_has_feature(feature)) missing.push_back(feature);
  return format("{}", join(missing, ", "));
}

}  // namespace

// ---- storage -----------------------------------------------------------------------------------

/// The bytes of an artifact: a private mapping of a file, or anonymous pages. Page aligned, so that
/// constants and weights can be used where they lie.
struct Artifact::Storage {
  std::span<const std::byte> bytes() const { return {data, length}; }
  ~Storage() {
    if (data != nullptr) ::munmap(data, length);
  }
  Storage() = default;
  Storage(const Storage&) = delete;

  /// The first `count` bytes of a file that has them.
  void map(const OpenFile& file, const std::string& path, std::uint64_t count) {
    if (count == 0) return;
    void* pages = ::mmap(nullptr, count, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (pages == MAP_FAILED) throw_unreadable(path, errno);
    data = static_cast<std::byte*>(pages);
    length = count;
  }

  static std::shared_ptr<Storage> of_length(std::uint64_t length) {
    auto storage = std::make_shared<Storage>();
    if (length == 0) return storage;
    void* pages =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
      throw ValueError(format("There are no {} bytes of memory for a compiled artifact.", length));
    storage->data = static_cast<std::byte*>(pages);
    storage->length = length;
    return storage;
  }

  std::byte* data = nullptr;
  std::size_t length = 0;
};

Artifact::Artifact(std::shared_ptr<const Storage> storage, std::string name)
    : storage_(std::move(storage)), bytes_(storage_->bytes()), name_(std::move(name)) {}

Artifact::~Artifact() = default;

namespace {

/// The header of a file that is what it says. Anything else: RuntimeError.
ArtifactHeader verified_header(std::span<const std::byte> bytes, const std::string& name,
                               bool with_sections) {
  HeaderReport found = report(bytes, name);
  // A newer format may mean anything by the sections, so that comes before what they hold.
  if (!found.reasons.empty()) throw RuntimeError(found.reasons.front());
  if (!with_sections) return std::move(*found.header);
  std::uint64_t end = kPrefixBytes + get(bytes.data() + 12, 4);
  for (const SectionInfo& info : found.header->sections) {
    const std::uint64_t section_end = info.offset + info.length;
    if (checksum(bytes.subspan(end, section_end - end)) != info.checksum)
      throw RuntimeError(
          format("'{}' is corrupted: the checksum of section {} does not match", name, info.kind));
    end = section_end;
  }
  return std::move(*found.header);
}

}  // namespace

std::shared_ptr<const Artifact> Artifact::read(const std::string& path) {
  OpenFile file(path);
  auto storage = std::make_shared<Storage>();
  storage->map(file, path, file.length);
  std::shared_ptr<Artifact> artifact(new Artifact(std::move(storage), path));
  artifact->header_ = verified_header(artifact->bytes_, artifact->name_, true);
  return artifact;
}

std::shared_ptr<const Artifact> Artifact::from_bytes(std::span<const std::byte> bytes,
                                                     const std::string& name) {
  ArtifactHeader header = verified_header(bytes, name, true);
  auto storage = Storage::of_length(bytes.size());
  std::memcpy(storage->data, bytes.data(), bytes.size());
  std::shared_ptr<Artifact> artifact(new Artifact(std::move(storage), name));
  artifact->header_ = std::move(header);
  return artifact;
}

std::shared_ptr<const Artifact> Artifact::from_layout(const Layout& layout, std::string name) {
  auto storage = Storage::of_length(layout.total);
  std::memcpy(storage->data, layout.head.data(), layout.head.size());
  for (const Piece& piece : layout.pieces)
    if (!piece.bytes.empty())
      std::memcpy(storage->data + piece.offset, piece.bytes.data(), piece.bytes.size());
  std::shared_ptr<Artifact> artifact(new Artifact(std::move(storage), std::move(name)));
  artifact->header_ = verified_header(artifact->bytes_, artifact->name_, false);
  return artifact;
}

std::shared_ptr<const Artifact> Artifact::from_contents(const ArtifactContents& contents) {
  std::vector<std::string> text;
  return from_layout(lay_out(contents, text), "<compiled>");
}

std::shared_ptr<const Artifact> Artifact::with_locations(
    const std::vector<ProgramLocation>& locations) const {
  const std::string text = locations_text(locations);
  std::vector<SectionSource> sections;
  for (const SectionInfo& info : header_.sections)
    sections.push_back({.info = {.kind = info.kind, .graph = info.graph, .target = info.target},
                        .pieces = {{0, info.kind == "locations" ? std::as_bytes(std::span(text))
                                                                : section(info)}}});
  return from_layout(lay_out(header_, std::move(sections)), name_);
}

// ---- what is inside ----------------------------------------------------------------------------

std::span<const std::byte> Artifact::section(std::string_view kind) const {
  for (const SectionInfo& info : header_.sections)
    if (info.kind == kind) return section(info);
  return {};
}

std::optional<std::span<const std::byte>> Artifact::carried_weight(std::size_t index) const {
  const WeightSignature& weight = header_.weights.at(index);
  if (!weight.offset) return std::nullopt;
  return section("weights").subspan(*weight.offset, packed_bytes(weight.dtype, weight.shape));
}

std::vector<ProgramLocation> Artifact::locations() const {
  std::vector<ProgramLocation> locations;
  const auto bytes = section("locations");
  if (bytes.empty()) return locations;
  try {
    JsonReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    for (reader.begin_array(); reader.next_element();) {
      ProgramLocation location;
      std::string key;
      for (reader.begin_object(); reader.next_key(key);) {
        if (key == "graph")
          location.graph = reader.string();
        else if (key == "op")
          location.op = reader.string();
        else if (key == "text")
          location.text = reader.string();
        else
          reader.skip();
      }
      locations.push_back(std::move(location));
    }
  } catch (const JsonError&) {
    // An error is being reported; it is better told without its place than not at all.
  }
  return locations;
}

std::optional<ProgramLocation> Artifact::location(std::int64_t index) const {
  std::vector<ProgramLocation> all = locations();
  if (index < 0 || index >= static_cast<std::int64_t>(all.size())) return std::nullopt;
  return std::move(all[static_cast<std::size_t>(index)]);
}

std::vector<std::string> Artifact::kernel_summaries(std::string_view graph) const {
  std::vector<std::string> summaries;
  const auto bytes = section("plan");
  if (bytes.empty()) return summaries;
  const auto plan = nlohmann::json::parse(
      reinterpret_cast<const char*>(bytes.data()),
      reinterpret_cast<const char*>(bytes.data()) + bytes.size(), nullptr, false);
  if (!plan.is_object() || !plan.contains("kernels") || !plan["kernels"].is_array())
    return summaries;
  for (const auto& kernel : plan["kernels"]) {
    if (!kernel.is_object()) continue;
    if (kernel.contains("graph") && kernel["graph"] != graph) continue;
    if (const auto summary = kernel.find("summary");
        summary != kernel.end() && summary->is_string()) {
      summaries.push_back(summary->get<std::string>());
      continue;
    }
    std::vector<std::string> ops;
    if (const auto list = kernel.find("ops"); list != kernel.end() && list->is_array())
      for (const auto& op : *list)
        if (op.is_string()) ops.push_back(op.get<std::string>());
    if (ops.size() == 1) summaries.push_back(ops[0]);
    if (ops.size() > 1) summaries.push_back(format("Epilogue({})", join(ops, ", ")));
  }
  return summaries;
}

std::uint64_t packed_bytes(DType dtype, const graph::Shape& static_shape) {
  std::int64_t elements = 1;
  bool overflow = false;
  for (const graph::Dim& dim : static_shape) {
    const std::int64_t size = dim.value();
    if (size == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(elements, size, &elements);
  }
  std::int64_t bits;
  if (overflow || __builtin_mul_overflow(elements, dtype.size_in_bits(), &bits))
    throw ValueError(format("a tensor of shape {} has more bytes than can be addressed",
                            static_shape.to_string()));
  return (static_cast<std::uint64_t>(bits) + 7) / 8;
}

// ---- writing -----------------------------------------------------------------------------------

namespace {

/// Writes a file beside its place and renames it there when all is written.
class PublishedFile {
 public:
  explicit PublishedFile(const std::string& path) : path_(path) {
    // A rename would put a file in the place of a device or a pipe.
    check_path(path);
    struct stat status;
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
      throw RuntimeError(format("cannot write '{}': it is no regular file", path));
    static std::atomic<unsigned> counter{0};
    temporary_ = format("{}.{}.{}.tmp", path, ::getpid(), counter.fetch_add(1));
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) fail(errno);
  }
  ~PublishedFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(temporary_.c_str());
    }
  }
  PublishedFile(const PublishedFile&) = delete;

  void resize(std::uint64_t length) {
    if (::ftruncate(fd_, static_cast<off_t>(length)) != 0) fail(errno);
  }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(n == 0 ? ENOSPC : errno);
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void publish() {
    const int fd = std::exchange(fd_, -1);
    int error = ::close(fd) == 0 ? 0 : errno;
    if (error == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
    if (error == 0) return;
    ::unlink(temporary_.c_str());
    fail(error);
  }

 private:
  [[noreturn]] void fail(int error) {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
      ::unlink(temporary_.c_str());
    }
    throw RuntimeError(format("cannot write '{}': {}", path_, system_text(error)));
  }

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace

void Artifact::write(const std::string& path, const std::vector<CarriedWeight>& weights) const {
  if (weights.empty()) {
    PublishedFile file(path);
    file.write_at(0, bytes_);
    file.publish();
    return;
  }
  ArtifactHeader header = header_;
  std::vector<SectionSource> sections;
  for (const SectionInfo& info : header_.sections)
    if (info.kind != "weights")
      sections.push_back({.info = {.kind = info.kind, .graph = info.graph, .target = info.target},
                          .pieces = {{0, section(info)}}});
  SectionSource carried{.info = {.kind = "weights"}};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < header.weights.size(); ++i) {
    std::optional<std::span<const std::byte>> data = carried_weight(i);
    for (const CarriedWeight& weight : weights)
      if (weight.weight == i) data = weight.bytes;
    if (!data) continue;
    WeightSignature& weight = header.weights[i];
    weight.offset = align_up(
        end,
        std::max<std::uint64_t>(kSectionAlignment, static_cast<std::uint64_t>(weight.alignment)));
    carried.pieces.push_back({*weight.offset, *data});
    end = *weight.offset + data->size();
  }
  sections.push_back(std::move(carried));
  const Layout layout = lay_out(std::move(header), std::move(sections));
  PublishedFile file(path);
  file.resize(layout.total);
  file.write_at(0, layout.head);
  for (const Piece& piece : layout.pieces) file.write_at(piece.offset, piece.bytes);
  file.publish();
}

// ---- without loading ---------------------------------------------------------------------------

HeaderReport read_header(const std::string& path) {
  OpenFile file(path);
  std::byte prefix[kPrefixBytes];
  const std::size_t got = file.read_at(path, 0, prefix);
  Artifact::Storage mapped;
  return report(path, std::span(prefix).first(got), file.length, [&](std::uint64_t length) {
    mapped.map(file, path, kPrefixBytes + length);
    return mapped.bytes().subspan(kPrefixBytes);
  });
}

HeaderReport read_header(std::span<const std::byte> bytes, const std::string& name) {
  return report(bytes, name);
}

std::vector<std::string> machine_reasons(const ArtifactHeader& header, const std::string& name) {
  std::vector<std::string> reasons;
  if (header.runtime_interface != KILN_ABI_VERSION)
    reasons.push_back(format("'{}' was built by kiln {} for runtime interface {}; this kiln has {}",
                             name, header.kiln_version, header.runtime_interface,
                             KILN_ABI_VERSION));
  const CpuTarget* lowest = nullptr;
  bool fits = header.targets.empty();
  for (const CpuTarget& target : header.targets) {
    if (lowest == nullptr) lowest = &target;
    fits = fits || missing_features(target).empty();
  }
  if (!fits) {
    const std::string architecture = lowest->triple.substr(0, lowest->triple.find('-'));
    std::vector<std::string> needed = lowest->features;
    if (architecture != host_architecture()) needed.insert(needed.begin(), architecture);
    reasons.push_back(format("'{}' needs a CPU with {}; this machine lacks {}", name,
                             join(needed, ", "), missing_features(*lowest)));
  }
  return reasons;
}

}  // namespace kiln::runtime

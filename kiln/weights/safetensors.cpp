#include "kiln/weights/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/json_reader.h"

namespace kiln::weights {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// A file mapped copy-on-write.
struct Mapping {
  explicit Mapping(const std::string& path) {
    const OpenedFile file = open_regular_file(path, O_RDONLY);
    const int fd = file.fd;
    if (fd < 0) refuse(path, file.error, file.reason);
    struct stat status;
    if (::fstat(fd, &status) != 0) {
      const int error = errno;
      ::close(fd);
      refuse(path, error);
    }
    length = static_cast<std::uint64_t>(status.st_size);
    void* pages = nullptr;
    if (length > 0) pages = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (pages == MAP_FAILED) refuse(path, error);
    data = static_cast<std::byte*>(pages);
  }
  ~Mapping() {
    if (data != nullptr) ::munmap(data, length);
  }
  Mapping(const Mapping&) = delete;

  [[noreturn]] static void refuse(const std::string& path, int error) {
    refuse(path, error, std::generic_category().message(error));
  }
  [[noreturn]] static void refuse(const std::string& path, int error, const std::string& reason) {
    const std::string text = format("cannot read '{}': {}", path, reason);
    if (error == ENOENT || error == ENOTDIR) throw FileNotFoundError(text);
    throw RuntimeError(text);
  }

  std::byte* data = nullptr;
  std::uint64_t length = 0;
};

/// One entry of a header.
struct Entry {
  std::string name;
  DType dtype = DType::uint8;
  Shape shape;
  std::uint64_t begin = 0;  // from the end of the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};

std::optional<DType> dtype_of(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"F64", DType::float64},         {"F32", DType::float32},
      {"F16", DType::float16},         {"BF16", DType::bfloat16},
      {"I64", DType::int64},           {"I32", DType::int32},
      {"I16", DType::int16},           {"I8", DType::int8},
      {"U64", DType::uint64},          {"U32", DType::uint32},
      {"U16", DType::uint16},          {"U8", DType::uint8},
      {"BOOL", DType::bool_},          {"F8_E4M3", DType::float8_e4m3fn},
      {"F8_E5M2", DType::float8_e5m2}, {"F8_E8M0", DType::float8_e8m0fnu}};
  for (const auto& [spelling, dtype] : kTypes)
    if (spelling == name) return dtype;
  return std::nullopt;
}

[[noreturn]] void invalid(const std::string& reason) { throw ValueError(reason); }

/// Bytes of a tensor; ValueError when they cannot be counted in 63 bits.
std::uint64_t byte_count(const Entry& entry) {
  std::int64_t bytes = entry.dtype.size_in_bytes();
  bool empty = false;
  bool overflow = false;
  for (std::int64_t size : entry.shape) {
    if (size == 0) empty = true;
    overflow = overflow || __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (empty) return 0;
  if (overflow) invalid(format("tensor '{}' has more bytes than can be addressed", entry.name));
  return static_cast<std::uint64_t>(bytes);
}

Entry read_entry(JsonReader& reader, std::string name) {
  Entry entry{.name = std::move(name)};
  enum { kType = 1, kShape = 2, kOffsets = 4 };
  int seen = 0;
  auto once = [&](int member) {
    if ((seen & member) != 0) invalid(format("tensor '{}' has a key twice", entry.name));
    seen |= member;
  };
  std::string key;
  for (reader.begin_object(); reader.next_key(key);) {
    if (key == "dtype") {
      once(kType);
      const std::string type = reader.string();
      const auto dtype = dtype_of(type);
      if (!dtype) invalid(format("tensor '{}' has the unknown type '{}'", entry.name, type));
      entry.dtype = *dtype;
    } else if (key == "shape") {
      once(kShape);
      for (reader.begin_array(); reader.next_element();) {
        const std::uint64_t size = reader.unsigned_integer();
        if (size > INT64_MAX)
          invalid(format("tensor '{}' has an axis of {} elements", entry.name, size));
        entry.shape.push_back(static_cast<std::int64_t>(size));
      }
    } else if (key == "data_offsets") {
      once(kOffsets);
      std::uint64_t* const bounds[] = {&entry.begin, &entry.end};
      std::size_t count = 0;
      for (reader.begin_array(); reader.next_element(); ++count) {
        const std::uint64_t value = reader.unsigned_integer();
        if (count < 2) *bounds[count] = value;
      }
      if (count != 2) invalid(format("tensor '{}' has {} offsets instead of 2", entry.name, count));
    } else {
      reader.skip();
    }
  }
  if (seen != (kType | kShape | kOffsets))
    invalid(format("tensor '{}' lacks its dtype, shape or data_offsets", entry.name));
  if (entry.begin > entry.end)
    invalid(format("tensor '{}' ends at {} before it begins at {}", entry.name, entry.end,
                   entry.begin));
  const std::uint64_t bytes = byte_count(entry);
  if (bytes != entry.end - entry.begin)
    invalid(format("tensor '{}' of type {} and shape {} needs {} bytes but has {}", entry.name,
                   entry.dtype.text_name(), entry.shape.to_string(), bytes,
                   entry.end - entry.begin));
  return entry;
}

Header read_header(std::string_view text) {
  Header header;
  std::set<std::string> names;
  JsonReader reader(text);
  bool metadata = false;
  std::string key;
  for (reader.begin_object(); reader.next_key(key);) {
    if (key == "__metadata__") {
      if (std::exchange(metadata, true)) invalid("'__metadata__' stands there twice");
      std::string name;
      for (reader.begin_object(); reader.next_key(name);)
        header.metadata.insert_or_assign(name, reader.string());
      continue;
    }
    if (const std::size_t at = key.find('\0'); at != std::string::npos)
      invalid(format("the name of a tensor holds a NUL character, behind '{}'", key.substr(0, at)));
    if (!names.insert(key).second) invalid(format("tensor '{}' stands there twice", key));
    try {
      header.entries.push_back(read_entry(reader, key));
    } catch (const ValueError& error) {
      // What the reader finds wrong is not about a tensor for it.
      const std::string about = format("tensor '{}'", key);
      if (error.message().starts_with(about)) throw;
      invalid(format("{}: {}", about, error.message()));
    }
  }
  reader.finish();
  return header;
}

/// The bytes that the tensors cover; they must follow each other without a gap.
std::uint64_t check_offsets(const Header& header) {
  std::vector<const Entry*> order;
  order.reserve(header.entries.size());
  for (const Entry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t end = 0;
  for (const Entry* entry : order) {
    if (entry->begin < end)
      invalid(format("tensor '{}' overlaps the one before it: it begins at {} and that ends at {}",
                     entry->name, entry->begin, end));
    if (entry->begin > end)
      invalid(
          format("there is a gap of {} bytes before tensor '{}'", entry->begin - end, entry->name));
    end = entry->end;
  }
  return end;
}

void require_length(const std::string& path, std::uint64_t needed, std::uint64_t length) {
  if (length < needed)
    throw ValueError(
        format("'{}' is truncated: it should have {} bytes but has {}", path, needed, length));
}

/// `*.safetensors` of a folder, or the file itself.
std::vector<std::string> files_of(const std::string& path) {
  check_path(path);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) Mapping::refuse(path, ENOENT);
  if (status.type() != std::filesystem::file_type::directory) return {path};
  std::vector<std::string> files;
  auto folder = std::filesystem::directory_iterator(path, error);
  if (error) Mapping::refuse(path, error.value());
  for (const auto& item : folder)
    if (item.path().extension() == ".safetensors") files.push_back(item.path().string());
  if (files.empty()) throw ValueError(format("The folder '{}' holds no .safetensors files.", path));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool Safetensors::contains(std::string_view name) const {
  return entries_->index.find(name) != entries_->index.end();
}

const driver::Buffer& Safetensors::operator[](std::string_view name) const {
  const auto found = entries_->index.find(name);
  if (found == entries_->index.end())
    throw KeyError(format("There is no tensor '{}' in these safetensors files.", name));
  return entries_->list[found->second].second;
}

const std::pair<std::string, driver::Buffer>& Safetensors::entry(std::size_t index) const {
  if (index >= size())
    throw IndexError(format("Tensor {} was asked for, but there are {}.", index, size()));
  return entries_->list[index];
}

Safetensors load_safetensors(std::span<const std::string> paths) {
  auto entries = std::make_shared<Safetensors::Entries>();
  std::vector<std::string> origin;  // the file of each entry
  for (const std::string& path : paths) {
    for (const std::string& file : files_of(path)) {
      const auto mapping = std::make_shared<const Mapping>(file);
      require_length(file, 8, mapping->length);
      std::uint64_t header_length;
      std::memcpy(&header_length, mapping->data, 8);
      Header header;
      std::uint64_t covered = 0;
      try {
        if (header_length > kMaxHeaderBytes)
          invalid(format("its header has {} bytes; at most {} are allowed", header_length,
                         kMaxHeaderBytes));
        require_length(file, 8 + header_length, mapping->length);
        header = read_header({reinterpret_cast<const char*>(mapping->data) + 8, header_length});
        covered = check_offsets(header);
      } catch (const ValueError& error) {
        if (std::string_view(error.message()).starts_with(format("'{}' is truncated", file))) throw;
        throw ValueError(format("'{}' is not a valid safetensors file: {}", file, error.message()));
      }
      const std::uint64_t data_begin = 8 + header_length;
      const std::uint64_t needed = data_begin + std::min(covered, UINT64_MAX - data_begin);
      require_length(file, needed, mapping->length);
      if (mapping->length > needed)
        throw ValueError(
            format("'{}' is not a valid safetensors file: {} bytes follow the last tensor", file,
                   mapping->length - needed));
      entries->metadata.merge(header.metadata);
      for (auto& [name, text] : header.metadata) entries->metadata[name] = text;
      for (Entry& entry : header.entries) {
        const auto [place, added] = entries->index.emplace(entry.name, entries->list.size());
        if (!added)
          throw ValueError(format("The tensor '{}' stands in two files: '{}' and '{}'.", entry.name,
                                  origin[place->second], file));
        driver::Buffer buffer =
            driver::Buffer::adopt(mapping->data + data_begin + entry.begin, entry.dtype,
                                  entry.shape, nullptr, driver::CPU(), [mapping] {});
        entries->list.emplace_back(std::move(entry.name), std::move(buffer));
        origin.push_back(file);
      }
    }
  }
  return Safetensors(std::move(entries));
}

Safetensors load_safetensors(const std::string& path) {
  return load_safetensors(std::span<const std::string>(&path, 1));
}

}  // namespace kiln::weights

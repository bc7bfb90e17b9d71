#include "ddl/lab/store.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/store_owner.h"
#include "ddl/lab/store_schema.h"
#include "ddl/lab/store_sqlite.h"

namespace ddl {
namespace {

std::string text_at(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json& object_at(const Json& record, const char* key) {
  static const Json kNone = Json::object();
  const auto found = record.find(key);
  return found != record.end() && found->is_object() ? *found : kNone;
}

std::optional<std::int64_t> worker_count(const Json& record) {
  const auto ranks = record.find("ranks");
  if (ranks != record.end() && ranks->is_array() && !ranks->empty()) return static_cast<std::int64_t>(ranks->size());
  const auto& config = object_at(record, "config");
  const auto workers = config.find("workers");
  if (workers != config.end() && workers->is_number_integer()) return workers->get<std::int64_t>();
  return std::nullopt;
}

std::optional<double> throughput(const Json& record) {
  const auto& values = object_at(record, "throughput");
  const auto median = values.find("median");
  if (median != values.end() && median->is_number()) return median->get<double>();
  return std::nullopt;
}

bool is_open(const std::string& state) { return state == "planned" || state == "running"; }

/// SQLite takes a file for its own only when it meets it; what stands at its beginning says more, and is left alone.
void refuse_other_files(const std::string& path) {
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  std::error_code absent;
  if (const auto kind = std::filesystem::status(path, absent); std::filesystem::exists(kind) && !std::filesystem::is_regular_file(kind))
    throw Error(Code::invalid_argument, fmt::format("[store] {} is no regular file; expected one, or a name for a new one", path));
  std::ifstream in(path, std::ios::binary);
  std::array<char, kMagic.size()> head{};
  if (!in.read(head.data(), head.size()) && in.gcount() == 0) return;
  if (std::string_view(head.data(), static_cast<std::size_t>(in.gcount())) != kMagic)
    throw Error(Code::corrupt, fmt::format("[store] {} is not a ddlbench store: not an SQLite file", path));
}

constexpr std::string_view kPut =
    "INSERT INTO runs (id, identity, study, name, state, subject, model, workers, started, throughput, coordinator, "
    "record)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET identity=excluded.identity, "
    "study=excluded.study,"
    " name=excluded.name, state=excluded.state, subject=excluded.subject, model=excluded.model, "
    "workers=excluded.workers,"
    " started=excluded.started, throughput=excluded.throughput, coordinator=excluded.coordinator, "
    "record=excluded.record";

}  // namespace

struct Store::Impl {
  explicit Impl(const std::string& path)
      : network(on_network_file_system(path)), database(path), prepared(prepare()) {}

  void write(const Json& record, const std::string& owner);
  std::string latest();

  bool network;
  Database database;
  // The statements below name tables, so the schema must stand before they are prepared.
  bool prepared;
  Statement put{database, kPut};
  Statement exact{database, "SELECT record FROM runs WHERE id = ?"};
  Statement by_prefix{database, "SELECT id FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 4"};
  Statement newest{database, "SELECT id FROM runs ORDER BY started DESC, id DESC LIMIT ?"};
  Statement all{database, "SELECT id, identity, study, name, state, started FROM runs ORDER BY started, id"};
  Statement of_study{database, "SELECT id, identity, study, name, state, started FROM runs WHERE study = ?"
                               " ORDER BY started, id"};
  Statement open_runs{database, "SELECT record, coordinator FROM runs WHERE state IN ('planned', 'running')"};

 private:
  bool prepare() {
    prepare_schema(database, network);
    return true;
  }
};

void Store::Impl::write(const Json& record, const std::string& owner) {
  const std::string id = text_at(record, "id"), identity = text_at(record, "identity"),
                    study = text_at(record, "study"), name = text_at(record, "case"),
                    state = text_at(record, "state"), subject = text_at(record, "subject"),
                    model = text_at(object_at(record, "config"), "model"), started = text_at(record, "started");
  // A worker's last lines may hold any bytes; they must not keep its record out of the store.
  const std::string document = record.dump(-1, ' ', false, Json::error_handler_t::replace);
  auto use = put.use();
  use.bind(1, id).bind(2, identity).bind(3, study).bind(4, name).bind(5, state).bind(6, subject).bind(7, model);
  use.bind(8, worker_count(record)).bind(9, started).bind(10, throughput(record));
  if (is_open(state))
    use.bind(11, std::string_view(owner));
  else
    use.null(11);
  use.bind(12, document).step();
}

std::string Store::Impl::latest() {
  auto use = newest.use();
  return use.bind(1, std::int64_t{1}).step() ? use.text(0) : "";
}

Store::Store(const std::string& path) {
  refuse_other_files(path);
  impl_ = std::make_unique<Impl>(path);
}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const std::string& Store::path() const { return impl_->database.path(); }

void Store::put(const Json& record) {
  if (!record.is_object() || text_at(record, "id").empty())
    throw Error(Code::invalid_argument, "[store] a run record must have an id; got none");
  Transaction transaction(impl_->database);
  impl_->write(record, to_text(this_process()));
  transaction.commit();
}

Json Store::get(const std::string& id) const {
  const std::string wanted = id == "latest" ? impl_->latest() : id;
  if (wanted.empty()) throw Error(Code::not_found, fmt::format("[store] {} holds no runs; got '{}'", path(), id));
  {
    auto use = impl_->exact.use();
    if (use.bind(1, wanted).step()) return parse_json(use.text(0), path() + " run " + wanted);
  }

  std::vector<std::string> matches, newest;
  {
    auto use = impl_->by_prefix.use();
    for (use.bind(1, wanted); use.step();) matches.push_back(use.text(0));
  }
  if (matches.size() == 1) return get(matches.front());
  if (matches.size() > 1)
    throw Error(Code::invalid_argument, fmt::format("[store] '{}' fits several runs; got {}{}, expected one", id,
                                                    join(matches, ", "), matches.size() == 4 ? ", …" : ""));
  auto use = impl_->newest.use();
  for (use.bind(1, std::int64_t{3}); use.step();) newest.push_back(use.text(0));
  throw Error(Code::not_found, fmt::format("[store] {} has no run '{}'; the newest there: {}", path(), id,
                                           newest.empty() ? "none" : join(newest, ", ")));
}

std::vector<Store::Row> Store::rows(const std::string& study) const {
  std::vector<Row> rows;
  auto use = study.empty() ? impl_->all.use() : impl_->of_study.use();
  if (!study.empty()) use.bind(1, study);
  while (use.step())
    rows.push_back({use.text(0), use.text(1), use.text(2), use.text(3), use.text(4), use.text(5)});
  return rows;
}

int Store::settle() {
  Transaction transaction(impl_->database);
  std::vector<std::pair<Json, Owner>> abandoned;
  {
    auto use = impl_->open_runs.use();
    while (use.step())
      if (const Owner owner = owner_from_text(use.text(1)); is_gone(owner, impl_->network))
        abandoned.emplace_back(parse_json(use.text(0), "a run in " + path()), owner);
  }
  for (auto& [record, owner] : abandoned) {
    record["reason"] = fmt::format("its coordinator (process {}) ended while the run was {}", owner.process,
                                   text_at(record, "state"));
    record["state"] = "interrupted";
    impl_->write(record, "");
  }
  transaction.commit();
  return static_cast<int>(abandoned.size());
}

}  // namespace ddl

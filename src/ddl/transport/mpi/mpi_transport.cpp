#include "ddl/transport/mpi/mpi_transport.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/transport/check.h"
#include "ddl/transport/cores.h"
#include "ddl/transport/deadline.h"

namespace ddl {
namespace {

constexpr int kHeadTag = 1, kPieceTag = 2, kNoteTag = 3;

/// How often a waiting rank says what it waits at.
constexpr Nanoseconds kLook = WaitChain::kPeriod;
/// How long a rank to which nothing comes yields between its looks before it sleeps between them.
constexpr Nanoseconds kYield = 2'000'000;
/// It sleeps for so large a part of the time that nothing has come: a look costs microseconds of a core that may have something to compute.
constexpr Nanoseconds kPartOfWait = 32, kLongestNap = 1'000'000;
/// How often a waiting rank looks whether the processes of those whom it waits for still run.
constexpr Nanoseconds kWatch = 50'000'000;
/// What a peer sent before it left, or ended, may be behind the word of that.
constexpr Nanoseconds kGrace = 100'000'000;
/// How long a failed rank takes in what others still send to it, so that they need not wait for it.
constexpr Nanoseconds kRelease = 300'000'000;
/// How long the last words may take, and the others' last words.
constexpr Nanoseconds kLeave = 200'000'000;

}  // namespace

MpiTransport::MpiTransport(MpiWorld& world, int rank, std::vector<int> members, mpi::Handle group, TransportOptions options)
    : world_(world), mpi_(world.mpi()), rank_(rank), size_(static_cast<int>(members.size())), members_(std::move(members)), group_(group),
      options_(std::move(options)), spin_(spin_for(size_)), peers_(members_.size()), chain_(size_) {}

MpiTransport::~MpiTransport() {
  watchdog_.reset();
  if (world_.lent()) {
    keep_what_mpi_uses();
    return;
  }
  // Who was told to depart in no call at all has its words still to say.
  tell_all(failure_ ? std::string() : parting_note());
  // A communicator may be used again once it is free: only when everyone's last words were read is nothing on its way.
  bool quiet = false;
  for (const Nanoseconds until = now() + kLeave; !quiet && now() < until;) {
    try {
      read_notes();
    } catch (const Error&) {
      break;
    }
    quiet = notes_.empty() && arriving_.empty();
    for (int each = 0; each < size_; ++each) quiet &= each == rank_ || peer(each).left != 0;
    if (!quiet) ::sched_yield();
  }
  if (quiet && !failure_) {
    mpi_.free_group(&group_);
    return;
  }
  keep_what_mpi_uses();
}

/// For ever: it may still read or write them.
void MpiTransport::keep_what_mpi_uses() noexcept {
  new auto(std::move(notes_));
  new auto(std::move(arriving_));
  new auto(std::move(heads_));
  new auto(std::move(staging_));
  blocks_.release();
}

void MpiTransport::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout,
                            const Signature& signature) {
  check_messages("mpi", rank_, size_, outgoing, incoming);
  if (interrupted_) throw_interrupted("mpi", rank_);
  if (failure_) throw Error(*failure_);
  refuse_while_lent();
  signature_ = signature;
  guarded([&] {
    sending_.clear();
    receiving_.clear();
    heads_used_ = 0;
    // Receives first: what comes to a place that waits for it is not copied.
    for (const auto& message : incoming) expect(message);
    for (const auto& message : outgoing) post(message, signature);
    wait(timeout);
  });
}

std::unique_ptr<Transport> MpiTransport::subgroup(const std::vector<int>&, Rendezvous& rendezvous) {
  return make_mpi(rendezvous, options_);
}

void MpiTransport::refuse_while_lent() const {
  if (world_.lent())
    throw Error(Code::peer_lost, fmt::format("[mpi] rank {} can use {} no longer, since another of its groups failed with messages on their way: {}",
                                             rank_, world_.implementation(), world_.lent_since()));
}

void MpiTransport::abandon(const Error& why) noexcept {
  if (!failure_) give_up(why);
}

std::string MpiTransport::parting_note() const noexcept {
  try {
    const auto words = parting_words();
    return words ? wire::encode({wire::Note::Kind::farewell, words->code(), signature_, -1, words->what()}) : std::string();
  } catch (...) {  // no memory for words
    return {};
  }
}

void MpiTransport::give_up(const Error& why) noexcept {
  world_.mark_broken();
  try {
    // That we were interrupted is no news to the others: for them we left.
    tell_all(why.code() == Code::interrupted ? parting_note() : wire::encode({wire::Note::Kind::farewell, why.code(), signature_, -1, why.what()}));
    failure_ = why;
  } catch (...) {  // no memory for words
  }
  release();
}

MpiTransport::Head& MpiTransport::next_head() {
  if (heads_used_ == heads_.size()) heads_.push_back(std::make_unique<Head>());
  return *heads_[heads_used_++];
}

std::byte* MpiTransport::borrow_staging() {
  if (free_staging_.empty()) {
    staging_.emplace_back(new std::byte[kPiece]);
    free_staging_.push_back(staging_.back().get());
  }
  auto* const place = free_staging_.back();
  free_staging_.pop_back();
  return place;
}

void MpiTransport::post(const Outgoing& message, const Signature& signature) {
  auto& sending = sending_.emplace_back();
  sending.message = message;
  Head& head = next_head();
  head.frame = {};
  head.frame.sequence = peer(message.peer).sent++;
  head.frame.bytes = message.data.size();
  head.frame.signature = signature;
  head.frame.factor = message.factor;
  std::size_t bytes = sizeof head.frame;
  if (!sending.large() && !message.data.empty()) {
    std::memcpy(head.payload.data(), message.data.data(), message.data.size());
    bytes += message.data.size();
  }
  if (const int failed = mpi_.send(group_, &head, static_cast<int>(bytes), message.peer, kHeadTag, &sending.head.handle); failed != 0)
    lost(message.peer, world_.text_of(failed));
  sending.head.active = true;
}

void MpiTransport::expect(const Incoming& message) {
  auto& receiving = receiving_.emplace_back();
  receiving.message = message;
  receiving.place = &next_head();
  receiving.sequence = peer(message.peer).received++;
  if (const int failed = mpi_.receive(group_, receiving.place, sizeof(Head), message.peer, kHeadTag, &receiving.head.handle); failed != 0)
    lost(message.peer, world_.text_of(failed));
  receiving.head.active = true;
}

void MpiTransport::wait(Seconds timeout) {
  if (advance()) return;
  const Nanoseconds begin = now();
  const Nanoseconds deadline = deadline_after(timeout);
  Nanoseconds said = begin, moved = begin;
  auto seen = ended_;
  const auto look_for_progress = [&] {
    if (ended_ != seen) moved = now();
    seen = ended_;
  };
  for (;;) {
    const Nanoseconds since = now();
    // Who slept until now looks once.
    do {
      if (advance()) return;
    } while (now() < since + spin_ && (since - moved < kYield || ended_ != seen));
    look_for_progress();
    if (interrupted_) throw_interrupted("mpi", rank_);
    look_around();
    if (advance()) return;
    look_for_progress();
    const Nanoseconds at = now();
    if (at - said >= kLook) {
      // Ranks that wait in a circle hear that they are not at the same, and those who wait for us, for whom we wait.
      said = at;
      const auto awaited = late();
      if (!awaited.empty()) chain_.hear(rank_, awaited.front());
      tell_all(wire::encode({wire::Note::Kind::waiting, Code::timeout, signature_, awaited.empty() ? -1 : awaited.front(), {}}));
    }
    if (left_until(deadline).value == 0) {
      // A message of one collective that nobody takes can let its sender go on to the next.
      for (const int each : chain_.circle(late(), timeout))
        if (const auto& theirs = peer(each).waits_at; each != rank_ && theirs != signature_)
          throw_disagreement("mpi", each, describe(theirs), rank_, describe(signature_));
      throw Error(Code::timeout, fmt::format("[mpi] rank {} waited {}; rank {} did not come", rank_, to_string(timeout), list_of_ranks(chain_.culprits(late(), timeout))));
    }
    if (at - moved < kYield)
      ::sched_yield();
    else
      ::usleep(static_cast<unsigned>(std::min((at - moved) / kPartOfWait, kLongestNap) / 1000));
  }
}

bool MpiTransport::advance() {
  ++pass_;
  bool complete = true;
  for (auto& receiving : receiving_) {
    if (!receiving.done()) advance(receiving);
    complete &= receiving.done();
  }
  for (auto& sending : sending_) {
    if (!sending.done()) advance(sending);
    complete &= sending.done();
  }
  return complete;
}

bool MpiTransport::ended(Request& request, int from, int* bytes) {
  int done = 0;
  mpi::Completion completion;
  if (const int failed = mpi_.test(&request.handle, &done, &completion); failed != 0) {
    request.active = false;
    mpi::Trouble trouble = mpi::Trouble::other;
    const auto text = world_.text_of(failed, &trouble);
    // The message was longer than what the head, which came before it, had said.
    if (trouble == mpi::Trouble::truncated) throw Error(Code::corrupt, fmt::format("[mpi] rank {} got too much from rank {}: {}", rank_, from, text));
    lost(from, text);
  }
  if (done == 0) return false;
  ++ended_;
  request.active = false;
  if (bytes != nullptr) *bytes = completion.bytes;
  return true;
}

void MpiTransport::advance(Sending& sending) {
  const int to = sending.message.peer;
  const auto data = sending.message.data;
  if (sending.head.active && ended(sending.head, to)) sent_.fetch_add(static_cast<std::int64_t>(data.size()), std::memory_order_relaxed);
  if (!sending.large()) return;
  for (auto& piece : sending.pieces)
    if (piece.active && ended(piece, to)) sending.ended += piece.bytes;
  if (peer(to).busy_sending == pass_) return;
  for (auto& piece : sending.pieces) {
    if (sending.posted == data.size()) break;
    if (piece.active) continue;
    piece.bytes = std::min(kPiece, data.size() - sending.posted);
    if (const int failed = mpi_.send(group_, data.data() + sending.posted, static_cast<int>(piece.bytes), to, kPieceTag, &piece.handle); failed != 0)
      lost(to, world_.text_of(failed));
    piece.active = true;
    sending.posted += piece.bytes;
  }
  if (!sending.all_posted()) peer(to).busy_sending = pass_;
}

void MpiTransport::advance(Receiving& receiving) {
  auto& message = receiving.message;
  const int from = message.peer;
  if (receiving.large() && peer(from).busy_receiving != pass_) {
    for (auto& piece : receiving.pieces) {
      if (receiving.posted == message.bytes) break;
      if (piece.active) continue;
      piece.offset = receiving.posted;
      piece.bytes = std::min(kPiece, message.bytes - receiving.posted);
      if (message.into == nullptr && piece.staging == nullptr) piece.staging = borrow_staging();
      std::byte* const place = message.into != nullptr ? message.into + piece.offset : piece.staging;
      if (const int failed = mpi_.receive(group_, place, static_cast<int>(piece.bytes), from, kPieceTag, &piece.handle); failed != 0)
        lost(from, world_.text_of(failed));
      piece.active = true;
      receiving.posted += piece.bytes;
    }
    if (!receiving.all_posted()) peer(from).busy_receiving = pass_;
  }
  if (receiving.head.active) {
    int bytes = 0;
    if (!ended(receiving.head, from, &bytes)) return;
    if (static_cast<std::size_t>(bytes) < sizeof(wire::Frame))
      throw Error(Code::corrupt, fmt::format("[mpi] rank {} got no frame from rank {}: {} bytes", rank_, from, bytes));
    take_head(receiving);
  }
  if (!receiving.large()) return;
  // In order: a sink takes its pieces so.
  for (bool found = true; found;) {
    found = false;
    for (auto& piece : receiving.pieces) {
      if (!piece.active || piece.offset != receiving.ended || !ended(piece, from)) continue;
      if (message.into == nullptr) message.sink.take(message.sink.context, piece.offset, {piece.staging, piece.bytes}, receiving.factor);
      receiving.ended += piece.bytes;
      found = true;
    }
  }
  if (!receiving.done()) return;
  for (auto& piece : receiving.pieces)
    if (piece.staging != nullptr) free_staging_.push_back(std::exchange(piece.staging, nullptr));
}

void MpiTransport::take_head(Receiving& receiving) {
  const auto& frame = receiving.place->frame;
  const auto& message = receiving.message;
  const int from = message.peer;
  if (frame.magic != wire::Frame{}.magic || frame.sequence != receiving.sequence)
    throw Error(Code::corrupt, fmt::format("[mpi] rank {} got message {} from rank {}, expected message {}", rank_, frame.sequence, from, receiving.sequence));
  if (frame.signature != signature_) throw_disagreement("mpi", from, describe(frame.signature), rank_, describe(signature_));
  if (frame.bytes != message.bytes) throw_wrong_length("mpi", from, rank_, frame.bytes, message.bytes);
  receiving.factor = frame.factor;
  received_.fetch_add(static_cast<std::int64_t>(message.bytes), std::memory_order_relaxed);
  if (receiving.large() || message.bytes == 0) return;
  const auto payload = std::span(receiving.place->payload).first(message.bytes);
  if (message.into != nullptr)
    std::memcpy(message.into, payload.data(), payload.size());
  else
    message.sink.take(message.sink.context, 0, payload, frame.factor);
}

std::vector<int> MpiTransport::late() const {
  std::vector<int> ranks;
  for (const auto& sending : sending_)
    if (!sending.done()) ranks.push_back(sending.message.peer);
  for (const auto& receiving : receiving_)
    if (!receiving.done()) ranks.push_back(receiving.message.peer);
  return ranks;
}

/// Whether somebody gave up, left, or waits at something else.
void MpiTransport::look_around() {
  refuse_while_lent();
  read_notes();
  // What has come counts before what was said: a peer that is done leaves, too.
  if (advance()) return;
  for (int each = 0; each < size_; ++each) {
    auto& other = peer(each);
    if (other.words) throw Error(*other.words);
    if (contradict(other.waits_at, signature_)) throw_disagreement("mpi", each, describe(other.waits_at), rank_, describe(signature_));
  }
  const auto awaited = late();
  for (const int each : awaited)
    if (peer(each).left != 0 && now() - peer(each).left > kGrace) lost(each, "it left");
  watch(awaited);
}

void MpiTransport::watch(const std::vector<int>& ranks) {
  const Nanoseconds at = now();
  if (at - watched_ < kWatch) return;
  watched_ = at;
  for (const int each : ranks) {
    auto& gone = peer(each).gone;
    if (gone == 0 && world_.processes().ended(members_[static_cast<std::size_t>(each)])) gone = at;
    if (gone != 0 && at - gone > kGrace) lost(each, "its process has ended");
  }
}

void MpiTransport::read_notes() {
  while (!notes_.empty()) {
    int done = 0;
    mpi::Completion completion;
    if (mpi_.test(&notes_.front().request.handle, &done, &completion) == 0 && done == 0) break;
    notes_.pop_front();
  }
  // Without waiting for what has begun to come: its sender may have stopped in the middle.
  for (;;) {
    int found = 0;
    mpi::Completion what;
    if (mpi_.probe(group_, kNoteTag, &found, &what) != 0 || found == 0) break;
    auto& next = arriving_.emplace_back();
    next.from = what.source;
    next.bytes.resize(static_cast<std::size_t>(what.bytes));
    if (mpi_.receive(group_, next.bytes.data(), what.bytes, what.source, kNoteTag, &next.request.handle) != 0) {
      arriving_.pop_back();
      break;
    }
  }
  // Of one rank in order.
  std::vector<int> behind;
  for (auto each = arriving_.begin(); each != arriving_.end();) {
    int done = 0;
    mpi::Completion completion;
    const bool waits = std::find(behind.begin(), behind.end(), each->from) != behind.end();
    if (waits || (mpi_.test(&each->request.handle, &done, &completion) == 0 && done == 0)) {
      behind.push_back(each->from);
      ++each;
      continue;
    }
    const auto note = std::move(*each);
    each = arriving_.erase(each);
    if (done != 0) hear(note.from, note.bytes);
  }
}

void MpiTransport::hear(int rank, std::span<const std::byte> note) {
  auto& from = peer(rank);
  if (note.empty()) from.left = now();
  from.notes.feed(note);
  while (auto said = from.notes.next())
    if (said->kind == wire::Note::Kind::farewell) {
      from.words = Error(said->code, said->text);
    } else {
      from.waits_at = said->signature;
      chain_.hear(rank, said->awaits);
    }
}

void MpiTransport::tell_all(const std::string& note) noexcept {
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    try {
      auto& out = notes_.emplace_back();
      out.text = note;
      if (mpi_.send(group_, out.text.data(), static_cast<int>(out.text.size()), to, kNoteTag, &out.request.handle) != 0) notes_.pop_back();
    } catch (...) {  // no memory for words
    }
  }
}

/// Begins to take in a message that nobody wants. Without waiting for it: its sender may have stopped in the middle.
bool MpiTransport::drop_one(int tag, std::deque<Dropped>& dropped) noexcept {
  int found = 0;
  mpi::Completion what;
  if (mpi_.probe(group_, tag, &found, &what) != 0 || found == 0) return false;
  try {
    auto& next = dropped.emplace_back();
    next.bytes.reset(new std::byte[static_cast<std::size_t>(what.bytes)]);
    if (mpi_.receive(group_, next.bytes.get(), what.bytes, what.source, tag, &next.request.handle) != 0) dropped.pop_back();
  } catch (...) {
    return false;
  }
  return true;
}

/// Nothing of a failed exchange may touch the caller's memory later: receives are taken back, and for a while what comes is
/// dropped and what is under way may end.
void MpiTransport::release() noexcept {
  std::vector<Request*> open;
  try {
    for (auto& receiving : receiving_) {
      for (auto& piece : receiving.pieces)
        if (piece.active) open.push_back(&piece);
      if (receiving.head.active) open.push_back(&receiving.head);
    }
    for (auto* const each : open) mpi_.cancel(&each->handle);
    for (auto& sending : sending_) {
      for (auto& piece : sending.pieces)
        if (piece.active) open.push_back(&piece);
      if (sending.head.active) open.push_back(&sending.head);
    }
  } catch (...) {  // no memory
  }
  const auto gone = [&](Request& each) {
    int done = 0;
    mpi::Completion completion;
    each.active = mpi_.test(&each.handle, &done, &completion) == 0 && done == 0;
    return !each.active;
  };
  std::deque<Dropped> unwanted;
  for (const Nanoseconds until = now() + kRelease; now() < until;) {
    std::erase_if(open, [&](Request* each) { return gone(*each); });
    std::erase_if(unwanted, [&](Dropped& each) { return gone(each.request); });
    if (open.empty() && notes_.empty() && unwanted.empty()) break;
    const bool dropped = drop_one(kHeadTag, unwanted) || drop_one(kPieceTag, unwanted);
    try {
      read_notes();
    } catch (const Error&) {  // they are not read any more
    }
    if (!dropped) ::sched_yield();
  }
  for (auto& each : unwanted) each.bytes.release();  // MPI may still write it
  const auto lend = [&] { world_.mark_lent(failure_ ? failure_->what() : "no memory for words"); };
  // What is left cannot be taken back: sends, and receives that have met their message. Heads and staging are kept for ever; other
  // pieces are the caller's memory.
  for (const auto& sending : sending_)
    for (const auto& piece : sending.pieces)
      if (piece.active) lend();
  for (const auto& receiving : receiving_)
    for (const auto& piece : receiving.pieces)
      if (piece.active && receiving.message.into != nullptr) lend();
  sending_.clear();
  receiving_.clear();
}

void MpiTransport::lost(int from, const std::string& why) {
  try {
    read_notes();
  } catch (const Error&) {  // a rank that is lost may have said half a note
  }
  if (peer(from).words) throw Error(*peer(from).words);
  throw Error(Code::peer_lost, fmt::format("[mpi] rank {} lost rank {}: {}", rank_, from, why));
}

std::unique_ptr<Transport> make_mpi(Rendezvous& rendezvous, const TransportOptions& options) {
  auto& world = MpiWorld::join(options.implementation, options.connect_timeout);
  const auto texts = rendezvous.exchange(fmt::format("{} {}", world.rank(), world.next_number()), options.connect_timeout);
  std::vector<int> members;
  int tag = 0;
  for (const auto& text : texts) {
    const auto words = split(text, ' ');
    const int member = words.size() == 2 ? std::atoi(words[0].c_str()) : -1;
    if (members.empty()) tag = member * 31 + (words.size() == 2 ? std::atoi(words[1].c_str()) : 0);
    const auto twin = std::find(members.begin(), members.end(), member);
    if (member < 0 || member >= world.size() || twin != members.end())
      throw Error(Code::unsupported, fmt::format("[mpi] ranks must be processes of one mpirun or srun; got {} as rank {} of this one's {} "
                                                 "({})", text, members.size(), world.size(), world.library()));
    members.push_back(member);
  }
  const auto group = world.group(members, tag, options.connect_timeout);
  return std::make_unique<MpiTransport>(world, rendezvous.rank(), std::move(members), group, options);
}

}  // namespace ddl

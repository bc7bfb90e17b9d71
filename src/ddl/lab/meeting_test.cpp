#include "ddl/lab/meeting.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/lab/agent_hub.h"

namespace ddl {
namespace {

Json rank_0() { return {{"rank", 0}, {"pid", 7}}; }

/// What `hub` hears until it holds, or ten seconds are over.
bool hears(AgentHub& hub, std::vector<ProcessEvent>& events, const std::function<bool()>& holds) {
  for (int i = 0; i < 1000 && !holds(); ++i) {
    hub.take(events);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return holds();
}

TEST(Meeting, IsTheSameAsText) {
  const Meeting meeting{{"127.0.0.1:1", "@a"}, "secret", "boot"};
  EXPECT_EQ(Meeting::from_text(meeting.text()).text(), meeting.text());
  EXPECT_THROW(Meeting::from_text("{}"), Error);
}

TEST(Meeting, BringsARankItsJobAndTakesItsWords) {
  for (const auto reach : {Listener::Reach::machine, Listener::Reach::file, Listener::Reach::network}) {
    AgentHub hub(1, reach);
    std::vector<ProcessEvent> events;
    hub.begin({{"kind", "train"}});
    hub.send(0, MessageType::stop, "");  // before anyone is there
    std::thread agent([meeting = hub.meeting()] {
      auto control = dial(meeting, rank_0(), {10});
      const auto job = control.receive({10});
      EXPECT_TRUE(job && job->type == MessageType::job && parse_json(job->body, "job").at("kind") == "train");
      const auto stop = control.receive({10});
      EXPECT_TRUE(stop && stop->type == MessageType::stop);
      control.send(MessageType::line, R"({"text": "hello", "error": true})");
      control.send(MessageType::finished, "0");
      const auto leave = control.receive({10});
      EXPECT_TRUE(leave && leave->type == MessageType::leave);
    });
    EXPECT_TRUE(hears(hub, events, [&] { return hub.running() == 0; }));
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].line, "hello");
    EXPECT_EQ(events[1].kind, ProcessEvent::Kind::exited);
    EXPECT_EQ(events[1].status, 0);
    EXPECT_EQ(hub.pid(0), 7);
    hub.leave();
    agent.join();
  }
}

TEST(Meeting, RefusesStrangers) {
  AgentHub hub(1, Listener::Reach::network);
  auto wrong = hub.meeting();
  std::atomic<bool> over{false};
  std::thread coordinator([&] {
    std::vector<ProcessEvent> events;
    while (!over) {
      hub.take(events);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  // Knows what the coordinator says to everyone, and not the answer.
  wrong.secret.replace(wrong.secret.size() / 2, std::string::npos, std::string(wrong.secret.size() / 2, '0'));
  EXPECT_THROW(dial(wrong, rank_0(), {10}).receive({10}), Error);  // its connection was closed
  // Does not find the one who was meant.
  wrong.secret = std::string(wrong.secret.size(), '0');
  EXPECT_THROW(dial(wrong, rank_0(), {0.2}), Error);
  over = true;
  coordinator.join();
  EXPECT_EQ(hub.missing(), std::vector<int>{0});
}

TEST(Meeting, AGoneAgentEndsItsRank) {
  AgentHub hub(1, Listener::Reach::machine);
  std::vector<ProcessEvent> events;
  hub.begin(Json::object());
  std::thread([meeting = hub.meeting()] { dial(meeting, rank_0(), {10}).receive({10}); }).detach();
  EXPECT_TRUE(hears(hub, events, [&] { return hub.running() == 0; }));
  ASSERT_FALSE(events.empty());
  EXPECT_NE(events.back().status, 0);
  EXPECT_THROW(hub.begin(Json::object()), Error);
}

TEST(Meeting, LeavesNoFile) {
  std::string path;
  {
    const Listener listener(Listener::Reach::file);
    path = listener.meeting().addresses.front();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

}  // namespace
}  // namespace ddl

#include "ddl/predict/validate/table.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr const char* kHeader = "id,model,hidden,layers,heads,seq,image,device,devices,devices_per_node,stages,overlap,micro_batch,global_batch,measured_ms,measured_samples_per_s,oom,remark\n";

TEST(MeasuredTable, ReadsRowsUnderRemarks) {
  const auto table = parse_table(std::string("# source\n# more\n") + kHeader + "a,gpt,1024,24,16,2048,,a100-80gb,16,8,,0,4,64,12.5,,0,\n\"b,1\",resnet50,,,,,3x224x224,k80,2,,3/4/5,1,,,,99.5,,\"said \"\"so\"\"\"\n", "t.csv");
  ASSERT_TRUE(table.unread.empty()) << table.unread[0].reason;
  ASSERT_EQ(table.rows.size(), 2U);
  const auto& a = table.rows[0];
  EXPECT_EQ(a.line, 4);
  EXPECT_EQ(a.hidden, 1024);
  EXPECT_EQ(a.nodes(), 2);
  EXPECT_FALSE(a.overlap);
  EXPECT_EQ(a.oom, false);
  EXPECT_DOUBLE_EQ(a.measured_seconds(), 0.0125);
  EXPECT_FALSE(a.prints_rate());
  const auto& b = table.rows[1];
  EXPECT_EQ(b.id, "b,1");
  EXPECT_EQ(b.image, (std::vector<std::int64_t>{3, 224, 224}));
  EXPECT_EQ(b.stages, (std::vector<int>{3, 4, 5}));
  EXPECT_TRUE(b.prints_rate());
  EXPECT_DOUBLE_EQ(b.measured_seconds(), 1 / 99.5);  // no batch: of one sample
  EXPECT_FALSE(b.oom.has_value());
}

// Each is told with its line; the others are read.
TEST(MeasuredTable, NoRowIsDroppedSilently) {
  const auto table = parse_table(std::string(kHeader) + "a,gpt,many,24,16,2048,,a100-80gb,16,8,,0,4,64,12.5,,0,\nb,resnet50\n\nc,resnet50,,,,,224,k80,2,,,1,,,,99.5,,\nd,,,,,,,k80,2,,,1,,,,99.5,,\ne,resnet50,,,,,,k80,0,,,1,,,,99.5,,\nf,resnet50,,,,,,k80,1,,,maybe,,,,99.5,,\n"
                                                         "g,resnet50,,,,,,k80,1,,,1,,,,-4,,\nh,resnet50,,,,,,k80,1,,,1,,,,4,,\ni,\"resnet50", "t.csv");
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].id, "h");
  std::vector<std::pair<int, std::string>> expected{{2, "hidden; got 'many', expected a number"}, {3, "got 2 fields, expected 18 as in the header"}, {5, "image; got '224', expected channels x height x width"}, {6, "model is empty"},
                                                    {7, "devices; got '0', expected a whole number from 1 on"}, {8, "overlap; got 'maybe', expected 0 or 1"}, {9, "measured_samples_per_s; got '-4', expected a number that is not negative"},
                                                    {11, "a quote that does not end"}};
  ASSERT_EQ(table.unread.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(table.unread[i].line, expected[i].first);
    EXPECT_NE(table.unread[i].reason.find(expected[i].second), std::string::npos) << table.unread[i].reason;
  }
}

// A word that means nothing is no word that means something else.
// A number that is too large for what counts devices is no other number.
TEST(MeasuredTable, CountsDoNotWrapRound) {
  for (const auto* text : {"a,gpt,4294967304,1", "a,gpt,8,4294967297"}) {
    const auto table = parse_table(std::string("id,model,devices,tp,device,measured_ms\n") + text + ",v100,1\n", "rows");
    EXPECT_TRUE(table.rows.empty()) << text;
    ASSERT_EQ(table.unread.size(), 1U);
    EXPECT_NE(table.unread[0].reason.find("expected a whole number up to 1000000"), std::string::npos) << table.unread[0].reason;
  }
}

TEST(MeasuredTable, WordsAreOfThoseThatMeanSomething) {
  const std::string header = "model,device,devices,recompute,sharded,sequence_parallel,data,schedule,measured_ms\n";
  const auto read = parse_table(header + "gpt,a100-80gb,8,always,zero1,true,real,interleaved,5\ngpt,a100-80gb,8,never,false,no,synthetic,fill-drain,5\ngpt,a100-80gb,8,,,,,,5\n", "t.csv");
  ASSERT_TRUE(read.unread.empty()) << read.unread[0].reason;
  ASSERT_EQ(read.rows.size(), 3U);
  const auto words = [](const MeasuredRow& row) { return std::vector<std::string>{row.recompute, row.sharded, row.sequence_parallel, row.data, row.schedule}; };
  EXPECT_EQ(words(read.rows[0]), (std::vector<std::string>{"full", "1", "1", "real", "interleaved-1f1b"}));
  EXPECT_EQ(words(read.rows[1]), (std::vector<std::string>{"none", "", "", "synthetic", "gpipe"}));
  EXPECT_EQ(words(read.rows[2]), (std::vector<std::string>(5)));
  const std::vector<std::pair<std::string, std::string>> wrong{{"gpt,a100-80gb,8,partly,,,,,5", "recompute; got 'partly', expected one of always except_last full never none selective"},
                                                               {"gpt,a100-80gb,8,,perhaps,,,,5", "sharded; got 'perhaps', expected one of"},
                                                               {"gpt,a100-80gb,8,,,2,,,5", "sequence_parallel; got '2', expected one of"},
                                                               {"gpt,a100-80gb,8,,,,made-up,,5", "data; got 'made-up', expected one of real synthetic"},
                                                               {"gpt,a100-80gb,8,,,,,g-pipe,5", "schedule; got 'g-pipe', expected one of"},
                                                               {"gpt,a100-80gb,,,,,,,5", "devices is empty"}};
  for (const auto& [row, says] : wrong) {
    const auto table = parse_table(header + row + "\n", "t.csv");
    EXPECT_TRUE(table.rows.empty()) << row;
    ASSERT_EQ(table.unread.size(), 1U) << row;
    EXPECT_NE(table.unread[0].reason.find(says), std::string::npos) << table.unread[0].reason;
  }
}

// A misspelt one would else be taken for empty.
TEST(MeasuredTable, ColumnsThatMeanNothingAreTold) {
  const auto table = parse_table("model,device,devices,micro_bacth,measured_ms,who\nresnet50,k80,1,32,5,we\n", "t.csv");
  EXPECT_EQ(table.unknown, (std::vector<std::string>{"micro_bacth", "who"}));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].micro_batch, 0);
  EXPECT_TRUE(parse_table("model,device,devices\nresnet50,k80,1\n", "t.csv").unknown.empty());
}

// A quote that does not end is its own line's alone; rows after it are read.
TEST(MeasuredTable, AQuoteThatDoesNotEndTakesNoRowAlong) {
  const auto table = parse_table("model,device,devices,measured_ms\ngpt,k80,1,5\n\"gpt,k80,2,5\ngpt,k80,3,5\ngpt,k80,4,5\n", "t.csv");
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[1].devices, 3);
  EXPECT_EQ(table.rows[1].line, 4);
  ASSERT_EQ(table.unread.size(), 1U);
  EXPECT_EQ(table.unread[0].line, 3);
  EXPECT_EQ(table.unread[0].reason, "a quote that does not end");
  EXPECT_EQ(parse_table("model,device,devices,measured_ms\ngpt,k80,1,5\ngpt,k80,1,\"5", "t.csv").unread.at(0).line, 3);
  EXPECT_THROW(parse_table("\"model,device,devices\ngpt,k80,1\n", "t.csv"), Error);
}

// What is said twice must be the same.
TEST(MeasuredTable, TwoMeasurementsOfOneStep) {
  EXPECT_THROW(parse_table("model,device,devices,measured_ms,measured_ms\ngpt,k80,1,5,6\n", "t.csv"), Error);
  const std::string header = "model,device,devices,global_batch,measured_ms,measured_samples_per_s\n";
  EXPECT_EQ(parse_table(header + "gpt,k80,1,64,1000,64\ngpt,k80,1,64,1000,63.5\ngpt,k80,1,,1000,3\n", "t.csv").rows.size(), 3U);
  const auto wrong = parse_table(header + "gpt,k80,1,64,1000,3\n", "t.csv");
  ASSERT_EQ(wrong.unread.size(), 1U);
  EXPECT_NE(wrong.unread[0].reason.find("measured_ms and measured_samples_per_s; got 1000 ms and 3 samples/s, which are 2.133e+04 ms a step of 64"), std::string::npos) << wrong.unread[0].reason;
}

TEST(MeasuredTable, AFileWithoutTheHeaderIsNoTable) {
  for (const auto* text : {"", "# nothing but a remark\n", "a,b\n1,2\n"}) EXPECT_THROW(parse_table(text, "t.csv"), Error) << text;
  EXPECT_THROW(read_table("/there/is/no/such/table.csv"), Error);
}

}  // namespace
}  // namespace ddl

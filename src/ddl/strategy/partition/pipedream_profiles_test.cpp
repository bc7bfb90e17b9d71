#include <gtest/gtest.h>

#include <algorithm>

#include "ddl/strategy/partition/partition.h"

// What PipeDream's authors measured and what their optimizer made of it: layers as their profiles have them (github.com/msr-fiddle/pipedream, profiler/image_classification/profiles, MIT), stages as the paper has them.
namespace ddl {
namespace {

/// Milliseconds of a minibatch, bytes that it makes, bytes of parameters.
struct ProfiledLayer {
  double forward, backward;
  std::int64_t activation, parameters;
};

/// 128 samples.
const std::vector<ProfiledLayer> kVgg16{
    {22.307, 24.613, 1644167168, 7168}, {4.446, 5.553, 1644167168, 0}, {46.201, 113.33, 1644167168, 147712}, {4.455, 5.311, 1644167168, 0}, {3.795, 5.579, 411041792, 0},
    {15.155, 39.648, 822083584, 295424}, {2.359, 2.738, 822083584, 0}, {22.062, 53.379, 822083584, 590336}, {2.513, 2.62, 822083584, 0}, {2.211, 2.788, 205520896, 0},
    {10.814, 18.335, 411041792, 1180672}, {1.377, 1.38, 411041792, 0}, {17.458, 27.023, 411041792, 2360320}, {1.64, 1.463, 411041792, 0}, {14.245, 33.888, 411041792, 2360320},
    {1.549, 1.321, 411041792, 0}, {1.169, 1.513, 102760448, 0}, {9.249, 14.574, 205520896, 4720640}, {1.026, 0.696, 205520896, 0}, {15.359, 21.9, 205520896, 9439232},
    {0.848, 0.679, 205520896, 0}, {11.775, 28.67, 205520896, 9439232}, {0.881, 0.642, 205520896, 0}, {0.802, 0.781, 51380224, 0}, {5.608, 7.381, 51380224, 9439232},
    {0.784, 0.266, 51380224, 0}, {4.07, 7.396, 51380224, 9439232}, {0.463, 0.19, 51380224, 0}, {4.042, 8.648, 51380224, 9439232}, {0.455, 0.175, 51380224, 0},
    {0.553, 0.234, 12845056, 0}, {0, 0, 12845056, 0}, {2.475, 4.575, 2097152, 411058176}, {0.377, 0.03, 2097152, 0}, {0, 0, 2097152, 0}, {0.709, 0.734, 2097152, 67125248},
    {0.277, 0.032, 2097152, 0}, {0, 0, 2097152, 0}, {0.393, 0.548, 512000, 16388000}};
/// 256 samples.
const std::vector<ProfiledLayer> kAlexNet{
    {22.316, 6.405, 198246400, 93184}, {0.813, 0.733, 198246400, 0}, {0.756, 1.148, 47775744, 0}, {3.128, 5.612, 143327232, 1229568}, {0.811, 0.524, 143327232, 0},
    {0.579, 0.861, 33226752, 0}, {3.26, 6.61, 66453504, 2655744}, {0.427, 0.269, 66453504, 0}, {4.423, 7.197, 44302336, 3539968}, {0.539, 0.188, 44302336, 0},
    {2.815, 5.497, 44302336, 2360320}, {0.524, 0.176, 44302336, 0}, {0.391, 0.306, 9437184, 0}, {0, 0, 9437184, 0}, {0, 0, 9437184, 0}, {1.737, 3.072, 4194304, 151011328},
    {0.471, 0.039, 4194304, 0}, {0, 0, 4194304, 0}, {1.075, 1.366, 4194304, 67125248}, {0.283, 0.043, 4194304, 0}, {0.453, 0.474, 1024000, 16388000}};

LayerCosts costs_of(const std::vector<ProfiledLayer>& profile) {
  LayerCosts costs;
  costs.layers.emplace_back().input = true;
  costs.cuts.emplace_back();
  std::int64_t made = 0;
  for (const auto& layer : profile) {
    costs.layers.push_back({layer.forward * 1e-3, layer.backward * 1e-3, 0, layer.parameters, 0, layer.activation});
    auto& cut = costs.cuts.emplace_back();
    cut.bytes = cut.gradient_bytes = made;
    made = layer.activation;
  }
  return costs;
}

Partition partition(const std::vector<ProfiledLayer>& profile, int workers, double bytes_per_s, int stages) {
  const auto costs = costs_of(profile);
  PartitionInput input{costs, stages};
  input.machines = {{workers, bytes_per_s}};
  return partition_pipedream(input);
}

std::int64_t parameters_from(const std::vector<ProfiledLayer>& profile, int layer) {
  std::int64_t sum = 0;
  for (std::size_t i = static_cast<std::size_t>(layer - 1); i < profile.size(); ++i) sum += profile[i].parameters;
  return sum;
}

// Narayanan et al., PipeDream, SOSP 2019, Table 1: VGG-16 and AlexNet on 16 GPUs whose servers are joined by 10 Gbit/s are "15-1": convolutions, which compute most, on 15, what is fully connected, which has most parameters, on one.
TEST(PipedreamProfiles, VggAndAlexNetAreFifteenToOneAsPublished) {
  constexpr double kEthernet = 10e9 / 8;
  for (const auto& [profile, connected] : {std::pair{&kVgg16, 411058176 + 67125248 + 16388000}, {&kAlexNet, 151011328 + 67125248 + 16388000}}) {
    const auto found = partition(*profile, 16, kEthernet, 2);
    EXPECT_EQ(found.replicas, (std::vector<int>{15, 1}));
    ASSERT_EQ(found.cuts.size(), 2U);
    EXPECT_EQ(parameters_from(*profile, found.cuts[1]), connected);
    // No other number of stages is faster, one of 16 replicas least of all.
    EXPECT_NEAR(partition(*profile, 16, kEthernet, 0).largest, found.largest, 1e-9);
    EXPECT_GT(partition(*profile, 16, kEthernet, 1).largest, 1.15 * found.largest);
  }
  // Computed by hand: 15 replicas share what comes before the classifier; 9.4 MB there and as much back.
  EXPECT_NEAR(partition(kVgg16, 16, kEthernet, 2).largest, 44.159e-3, 1e-6);
  EXPECT_NEAR(partition(kAlexNet, 16, kEthernet, 2).largest, 2 * 9437184 / kEthernet, 1e-9);
}

}  // namespace
}  // namespace ddl

#include "ddl/nn/graph.h"

#include <cmath>
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/graph_builder.h"

namespace ddl {
namespace {

constexpr SampleShape kMnist{1, 28, 28, 10};
constexpr SampleShape kCifar{3, 32, 32, 10};
constexpr SampleShape kImageNet{3, 224, 224, 1000};
constexpr SampleShape kHighres{3, 512, 512, 1000};
constexpr SampleShape kText{.classes = 50257, .objective = Objective::language, .target_length = 1025};
constexpr SampleShape kSentences{.classes = 37000, .objective = Objective::translation, .source_length = 30, .target_length = 33};
constexpr SampleShape kCaptions{3, 224, 224, 10000, Objective::captioning, 0, 21};

ModelGraph build(const std::string& name, const SampleShape& shape) {
  const auto spec = parse_spec(name);
  return builtin_models().at(spec.name).make(spec, shape);
}

std::string refused(const std::string& name, const SampleShape& shape) {
  try {
    build(name, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << name << " took what does not fit";
  return "";
}

const Layer& layer(const ModelGraph& graph, const std::string& name) {
  for (const auto& one : graph.layers)
    if (one.name == name) return one;
  throw Error(Code::not_found, name);
}

// Figures of torchvision's documentation; Keras less its extra biases for v2 (see resnet_v2.cpp).
TEST(Networks, HaveTheirPublishedNumberOfParameters) {
  const std::pair<const char*, std::int64_t> published[] = {
      {"resnet18", 11'689'512},   {"resnet34", 21'797'672},   {"resnet50", 25'557'032},      {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},  {"resnet50v2", 25'549'352}, {"resnet101v2", 44'541'480},   {"vgg11", 132'863'336},
      {"vgg16", 138'357'544},     {"mobilenetv2", 3'504'872}, {"alexnet", 61'100'840}};
  for (const auto& [name, parameters] : published) EXPECT_EQ(build(name, kImageNet).parameters(), parameters) << name;
  EXPECT_EQ(build("inceptionv3", {3, 299, 299, 1000}).parameters(), 27'161'264);
  EXPECT_EQ(build("gpt", kText).parameters(), 124'439'808);
  EXPECT_EQ(build("lenet", kMnist).parameters(), 61'706);
  EXPECT_EQ(build("smallcnn", kCifar).parameters(), 545'098);
  EXPECT_EQ(build("mlp", kMnist).parameters(), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
}

// Table 3 rounds to millions, and does not say whether projections have biases.
TEST(Networks, TransformersHaveTheParametersOfThePaper) {
  EXPECT_NEAR(static_cast<double>(build("transformer", kSentences).parameters()), 65e6, 0.03 * 65e6);
  EXPECT_NEAR(static_cast<double>(build("transformer-big", kSentences).parameters()), 213e6, 0.01 * 213e6);
  EXPECT_EQ(build("transformer", kSentences).parameters(), 63'082'496);
  EXPECT_EQ(build("transformer-big", kSentences).parameters(), 214'245'376);
}

TEST(Networks, KeepTheirSizeWithTheImages) {
  for (const auto* name : {"resnet18", "resnet50", "resnet50v2", "mobilenetv2", "vgg16", "alexnet", "inceptionv3"})
    EXPECT_EQ(build(name, kHighres).parameters(), build(name, natural_shape(name)).parameters()) << name;
  EXPECT_EQ(build("inceptionv3", {3, 75, 75, 1000}).parameters(), 27'161'264);
  EXPECT_EQ(build("resnet18", kCifar).parameters(), 11'173'962);
  EXPECT_EQ(build("resnet18", kMnist).parameters(), 11'173'962 - 2 * 9 * 64);
}

// Billions of multiply-adds of one image: torchvision's documentation.
TEST(Networks, HaveTheirPublishedMultiplyAdds) {
  const std::pair<const char*, double> published[] = {{"resnet18", 1.81}, {"resnet34", 3.66}, {"resnet50", 4.09},  {"resnet101", 7.80}, {"resnet152", 11.51},
                                                      {"vgg11", 7.61},    {"vgg16", 15.47},   {"alexnet", 0.714}, {"mobilenetv2", 0.300}, {"inceptionv3", 5.71}};
  for (const auto& [name, billions] : published)
    EXPECT_NEAR(static_cast<double>(build(name, natural_shape(name)).multiply_adds()) / 1e9, billions, 0.01 * billions) << name;
}

// Kaplan et al. 2020: 2 per parameter of the matrices and word, and 2 * layers * words * features of attention, for each of two products.
TEST(Networks, GptHasTheFlopsOfItsMatricesAndOfAttention) {
  const auto graph = build("gpt", kText);
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  EXPECT_DOUBLE_EQ(static_cast<double>(graph.multiply_adds()), 1024 * matrices + 12 * 2 * 1024.0 * 1024 * 768);
}

TEST(Networks, CountTheFlopsOfLeNetByHand) {
  // 2 * multiply-adds + bias of every layer, plus one per ReLU output and four per pooled one.
  const std::int64_t conv1 = (2 * 25 + 1) * 6 * 28 * 28, conv2 = (2 * 6 * 25 + 1) * 16 * 10 * 10;
  const std::int64_t fc = (2 * 400 + 1) * 120 + (2 * 120 + 1) * 84 + (2 * 84 + 1) * 10;
  const std::int64_t relu = 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84, pool = 4 * (6 * 14 * 14 + 16 * 5 * 5);
  EXPECT_EQ(build("lenet", kMnist).flops(), conv1 + conv2 + fc + relu + pool);
}

// Linear: a product and a bias. Attention: queries and result for each word, keys and values for each that is seen, two products of
// each with each, and 13 operations on every score.
TEST(Networks, CountTheFlopsOfATransformerByHand) {
  constexpr std::int64_t kFeatures = 8, kInner = 32, kHeads = 2, kVocabulary = 13, kSource = 5, kTarget = 7;
  const auto linear = [](std::int64_t words, std::int64_t in, std::int64_t out) { return words * out * (2 * in + 1); };
  const auto attention = [&](std::int64_t words, std::int64_t seen) {
    return 2 * linear(words, kFeatures, kFeatures) + 2 * linear(seen, kFeatures, kFeatures) + words * seen * (4 * kFeatures + 13 * kHeads);
  };
  const auto join = [](std::int64_t words) { return (1 + 5) * words * kFeatures; };  // a sum and layer norm
  const auto feed = [&](std::int64_t words) { return linear(words, kFeatures, kInner) + words * kInner + linear(words, kInner, kFeatures); };
  const auto encoder = attention(kSource, kSource) + feed(kSource) + 2 * join(kSource);
  const auto decoder = attention(kTarget, kTarget) + attention(kTarget, kSource) + feed(kTarget) + 3 * join(kTarget);
  const auto tables = 2 * (kSource + kTarget) * kFeatures, logits = 2 * kTarget * kFeatures * kVocabulary;
  const SampleShape shape{.classes = kVocabulary, .objective = Objective::translation, .source_length = kSource, .target_length = kTarget + 1};
  EXPECT_EQ(build("transformer[hidden=8,heads=2,layers=3,dropout=0]", shape).flops(), tables + 3 * (encoder + decoder) + logits);
}

// A step of the LSTM: four gates of products with input and state and two biases, five exponentials of ten operations, four products or sums.
TEST(Networks, CountTheFlopsOfACaptionerByHand) {
  constexpr std::int64_t kHidden = 16, kVocabulary = 30, kWords = 8;
  const auto encoder = build("resnet18", kCifar).flops() - 10 * (2 * 512 + 1);
  const auto image = kHidden * (2 * 512 + 1), output = kWords * kVocabulary * (2 * kHidden + 1);
  const auto lstm = (kWords + 1) * kHidden * (4 * (2 * 2 * kHidden + 2) + 5 * 10 + 4);
  const SampleShape shape{3, 32, 32, kVocabulary, Objective::captioning, 0, kWords + 1};
  EXPECT_EQ(build("captioner[depth=18,hidden=16,dropout=0]", shape).flops(), encoder + image + lstm + output);
}

TEST(Networks, CountTheFlopsOfResNetV2ByHand) {
  const auto conv = [](std::int64_t kernel, std::int64_t in, std::int64_t out, std::int64_t side) { return 2 * kernel * kernel * in * out * side * side; };
  const auto norm_and_relu = [](std::int64_t channels, std::int64_t side) { return 6 * channels * side * side; };
  std::int64_t flops = conv(3, 3, 64, 32), before = 64, side = 32, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const auto after = block == 0 && width > 64 ? side / 2 : side;
      flops += norm_and_relu(before, side) + conv(1, before, width, side);
      flops += norm_and_relu(width, side) + conv(3, width, width, after);
      flops += norm_and_relu(width, after) + conv(1, width, 4 * width, after);
      if (block == 0) flops += conv(1, before, 4 * width, after);
      flops += 4 * width * after * after;
      before = 4 * width;
      side = after;
    }
    width *= 2;
  }
  flops += norm_and_relu(2048, 4) + 2048 * 4 * 4 + 10 * (2 * 2048 + 1);
  EXPECT_EQ(build("resnet50v2", kCifar).flops(), flops);
}

// Each piece of memory once: the image, what ReLU leaves (which pooling and the next layer read), indices of pooling,
// and what pooling leaves (which the next layer reads).
TEST(Networks, CountWhatBackwardOfLeNetNeedsByHand) {
  const std::int64_t maps = 6 * 28 * 28 + 16 * 10 * 10, pooled = 6 * 14 * 14 + 16 * 5 * 5;
  EXPECT_EQ(build("lenet", kMnist).kept_elements(), 28 * 28 + maps + 3 * pooled + 120 + 84);
}

TEST(Networks, EveryModelFitsWhatItLearnsFromAndNamesItsParametersOnce) {
  for (const auto& entry : builtin_models().entries()) {
    std::vector<SampleShape> shapes{natural_shape(entry.name)};
    if (shapes[0].objective == Objective::classification) {
      shapes.insert(shapes.end(), {kImageNet, kHighres});
      if (entry.name != "inceptionv3") shapes.insert(shapes.end(), {kMnist, kCifar});
    }
    for (const auto& shape : shapes) {
      const auto graph = entry.make({entry.name, {}}, shape);
      EXPECT_EQ(graph.layers.back().shape.back(), shape.classes) << entry.name;
      std::set<std::string> names, layers;
      for (const auto& specs : {graph.parameter_specs(), graph.frozen_specs()})
        for (const auto& spec : specs) EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
      for (std::size_t i = 0; i < graph.layers.size(); ++i) {
        EXPECT_TRUE(layers.insert(graph.layers[i].name).second) << entry.name << " " << graph.layers[i].name;
        for (const int input : graph.layers[i].inputs) EXPECT_LT(static_cast<std::size_t>(input), i);
      }
    }
  }
}

TEST(Networks, RefuseWhatDoesNotFit) {
  EXPECT_NE(refused("lenet", {1, 8, 8, 10}).find("conv2"), std::string::npos);
  EXPECT_EQ(refused("inceptionv3", kCifar), "[inceptionv3] takes images of at least 75x75; got 32x32");
  EXPECT_EQ(refused("resnet50", {3, 4, 4, 10}), "[resnet50] takes images of at least 8x8; got 4x4");
  EXPECT_EQ(refused("resnet50", kText), "[resnet50] learns from images with labels; got a data set of text");
  EXPECT_EQ(refused("gpt", kCifar), "[gpt] learns from text; got a data set of images with labels");
  EXPECT_EQ(refused("transformer", kText), "[transformer] learns from sentences with their translations; got a data set of text");
  EXPECT_EQ(refused("captioner", kImageNet), "[captioner] learns from images with captions; got a data set of images with labels");
  EXPECT_EQ(refused("captioner[encoder=frosen]", kCaptions), "[captioner] encoder is one of: frozen trained; got 'frosen' (did you mean 'frozen'?)");
  EXPECT_EQ(refused("gpt[vocab=100]", kText), "[gpt] vocab is too small for the data; got 100, expected at least 50257");
  EXPECT_EQ(refused("gpt[seq=64]", kText), "[gpt] seq is too short for the data; got 64, expected at least 1024");
  EXPECT_EQ(refused("gpt[heads=7]", kText), "[gpt] hidden divides among heads; got 768 and 7");
  EXPECT_EQ(refused("gpt[layers=many]", kText), "[gpt] layers is a whole number; got 'many', expected 1 to 1000");
  EXPECT_EQ(refused("vgg11[dropout=1]", kCifar), "[vgg11] dropout is a part; got '1', expected 0 to less than 1");
  refused("lenet[depth=3]", kMnist);
  EXPECT_EQ(refused("null[ms=soon]", kMnist), "[null] ms is not a number of milliseconds; got 'soon', expected 0 to 100000");
  refused("null[backward=-1]", kMnist);
  refused("null[layers=0]", kMnist);
  refused("resnet18", {0, 32, 32, 10});
}

TEST(Networks, MayKnowMoreWordsAndPlacesThanTheDataHas) {
  const auto graph = build("gpt[vocab=50304,seq=2048]", kText);
  EXPECT_EQ(graph.layers.back().shape, (std::vector<std::int64_t>{1024, 50304}));
  EXPECT_EQ(graph.parameters(), 124'439'808 + (50304 - 50257) * 768 + 1024 * 768);
}

TEST(Networks, AFrozenEncoderDoesNotTrainAndKeepsNothing) {
  const auto frozen = build("captioner", kCaptions), trained = build("captioner[encoder=trained]", kCaptions);
  const std::int64_t encoder = 60'192'808 - (2048 * 1000 + 1000);
  EXPECT_EQ(frozen.frozen_parameters(), encoder);
  EXPECT_EQ(trained.frozen_parameters(), 0);
  EXPECT_EQ(trained.parameters(), frozen.parameters() + encoder);
  EXPECT_EQ(frozen.flops(), trained.flops());
  EXPECT_LT(frozen.kept_elements() * 20, trained.kept_elements());
  EXPECT_EQ(layer(frozen, "encoder.layer4.2.conv3").kept_elements, 0);
}

TEST(Networks, OnlyTheAuxiliaryHeadIsAuxiliary) {
  const auto graph = build("inceptionv3", natural_shape("inceptionv3"));
  for (const auto& one : graph.layers) EXPECT_EQ(one.auxiliary, one.name.starts_with("AuxLogits.")) << one.name;
  EXPECT_EQ(graph.layers[static_cast<std::size_t>(graph.auxiliary)].name, "AuxLogits.fc");
}

TEST(GraphBuilder, WritesOverWhatNobodyNeedsAndNothingElse) {
  GraphBuilder net("test", {8, 16, 16});
  const int normal = net.batch_norm2d("normal", net.conv2d("conv", GraphBuilder::kInput, 8, {3, 1, 1}));
  const int first = net.relu("over a batch norm", normal);
  const int twice = net.relu6("over a value that is kept", first);
  const int both = net.add("over one that is read again", twice, net.conv2d("branch", twice, 8, {3, 1, 1}));
  const int again = net.add("over the sum", both, first);
  const int kept = net.tanh("tanh", again);
  const int last = net.relu("over what tanh keeps", kept);
  net.add("over relu's own output", last, last);
  const auto graph = std::move(net).finish();
  EXPECT_TRUE(layer(graph, "over a batch norm").in_place);
  EXPECT_FALSE(layer(graph, "over a value that is kept").in_place);
  EXPECT_FALSE(layer(graph, "over one that is read again").in_place);
  EXPECT_TRUE(layer(graph, "over the sum").in_place);
  EXPECT_FALSE(layer(graph, "over what tanh keeps").in_place);
  EXPECT_FALSE(layer(graph, "over relu's own output").in_place);
}

// In evaluation what dropout gives out is its input's memory, until the last layer that reads either.
TEST(GraphBuilder, WritesOverNothingThatDropoutHandedOn) {
  GraphBuilder net("test", {8, 16, 16});
  const int from = net.global_average_pool("pool", net.conv2d("conv", GraphBuilder::kInput, 8, {3, 1, 1}));
  const int dropped = net.dropout("twice", net.dropout("once", from, 0.5), 0.5);
  const int over = net.relu("over what is read after dropout", from);
  const int both = net.add("over what dropout handed on", dropped, over);
  const int last = net.global_average_pool("again", both);
  net.relu("over what was dropped and read", net.dropout("last", last, 0.5));
  const auto graph = std::move(net).finish();
  for (const auto* name : {"over what is read after dropout", "over what dropout handed on", "over what was dropped and read"})
    EXPECT_FALSE(layer(graph, name).in_place) << name;
}

std::string said(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(GraphBuilder, NamesTheLayerThatDoesNotFit) {
  GraphBuilder net("test", {8, 16, 16});
  EXPECT_EQ(said([&] { net.conv2d("far", 0, 8, {{1, 19}, 1, {0, 1}}); }), "[test] layer 'far' needs images of at least 1x17 before it; got 16x16");
  EXPECT_EQ(said([&] { net.conv2d("odd", 0, 9, {3}, {.groups = 2}); }),
            "[test] layer 'odd' has 2 groups of channels; got 8 channels in and 9 out, expected multiples of it");
  EXPECT_EQ(said([&] { net.layer_norm("fine", 0); net.self_attention("maps", 0, {}); }), "[test] layer 'maps' takes samples of 2 dimensions; got 8x16x16");
  EXPECT_EQ(said([&] { net.add("sum", 0, net.flatten("flat", 0)); }), "[test] layer 'sum' adds samples of one shape; got 8x16x16 and 2048");
  EXPECT_EQ(said([&] { net.conv2d("still", 0, 8, {3, {1, 0}}); }), "[test] layer 'still' moves its window on by at least 1x1; got 1x0");
  EXPECT_EQ(said([&] { net.max_pool2d("still", 0, {3, 0}); }), "[test] layer 'still' moves its window on by at least 1x1; got 0x0");
  EXPECT_EQ(said([&] { net.average_pool2d("back", 0, {3, -1}); }), "[test] layer 'back' moves its window on by at least 1x1; got -1x-1");
  EXPECT_EQ(said([&] { net.max_pool2d("padded", 0, {2, 2, 2}); }), "[test] layer 'padded' pads by at most half of its window of 2x2; got 2x2");
  EXPECT_EQ(said([&] { net.max_pool2d("nothing", 0, {0}); }), "[test] layer 'nothing' looks through a window of at least 1x1; got 0x0");
  EXPECT_EQ(said([&] { net.conv2d("less", 0, 8, {3, 1, {0, -1}}); }), "[test] layer 'less' pads by at least 0x0; got 0x-1");
  EXPECT_EQ(said([&] { net.conv2d("none", 0, 8, {3}, {.groups = 0}); }),
            "[test] layer 'none' has 0 groups of channels; got 8 channels in and 8 out, expected multiples of it");
  EXPECT_EQ(said([&] { net.conv2d("no channels", 0, 0, {3}); }), "[test] layer 'no channels' has 1 groups of channels; got 8 channels in and 0 out, expected multiples of it");
  EXPECT_EQ(said([&] { net.adaptive_average_pool2d("flat", 0, {3, 0}); }), "[test] layer 'flat' gives maps of at least 1x1; got 3x0");
  EXPECT_EQ(said([&] { net.dropout("all", 0, 1); }), "[test] layer 'all' drops a part; got a rate of 1, expected 0 to less than 1");
}

TEST(GraphBuilder, BorrowsWhatFitsOrSaysSo) {
  GraphBuilder net("test");
  const int words = net.input("words", InputPart::target, {5});
  const int table = net.embedding("table", words, 20, 4, {});
  EXPECT_EQ(said([&] { net.embedding("again", words, 20, 4, {.tied = table}); }), "nothing");
  EXPECT_EQ(said([&] { net.embedding("wider", words, 20, 8, {.tied = table}); }), "[test] layer 'wider' borrows a weight of 20x8; got 20x4 of layer 'table'");
  EXPECT_EQ(said([&] { net.embedding("wordless", words, 20, 4, {.tied = words}); }), "[test] layer 'wordless' borrows a weight of 20x4; got none of layer 'words'");
  EXPECT_EQ(said([&] { net.embedding("later", words, 20, 4, {.tied = 9}); }), "[test] layer 'later' borrows a weight of a layer before it; got 9, expected 0 to 2");
  EXPECT_EQ(said([&] { net.linear("turned", table, 4, {.tied = table}); }), "[test] layer 'turned' borrows a weight of 4x4; got 20x4 of layer 'table'");
  EXPECT_EQ(said([&] { net.linear("later", table, 20, {.tied = 9}); }), "[test] layer 'later' borrows a weight of a layer before it; got 9, expected 0 to 2");
}

TEST(Initialise, FollowsItsDistributionAndSeed) {
  const ParameterSpec spec{"w", {200, 50, 3, 3}, Initialiser::he_normal(1800)};
  std::vector<float> a(static_cast<std::size_t>(spec.elements())), b(a.size()), c(a.size());
  initialise(spec, 1, 0, a.data());
  initialise(spec, 1, 0, b.data());
  initialise(spec, 2, 0, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  // Within five deviations of mean and variance.
  const auto moments = [](const std::vector<float>& values) {
    double sum = 0, squares = 0;
    for (const float x : values) {
      sum += x;
      squares += double{x} * x;
    }
    const auto n = static_cast<double>(values.size());
    return std::pair{sum / n, squares / n};
  };
  const auto [mean, variance] = moments(a);
  EXPECT_NEAR(mean, 0, 5 / (30 * std::sqrt(90'000.0)));
  EXPECT_NEAR(variance * 900, 1, 5 * std::sqrt(2 / 90'000.0));

  const ParameterSpec uniform{"u", {100, 100}, Initialiser::uniform_fan_in(100)};
  std::vector<float> u(10'000);
  initialise(uniform, 1, 1, u.data());
  for (const float x : u) EXPECT_LE(std::abs(x), 0.1F);
  const auto [uniform_mean, uniform_variance] = moments(u);
  EXPECT_NEAR(uniform_mean, 0, 5 * 0.1 / std::sqrt(3 * 10'000.0));
  EXPECT_NEAR(uniform_variance * 300, 1, 5 * std::sqrt(0.8 / 10'000));
}

TEST(Initialise, ForgetGatesAreOpen) {
  const ParameterSpec spec{"b", {8}, Initialiser::forget(1)};
  std::vector<float> b(8, 5);
  initialise(spec, 1, 0, b.data());
  EXPECT_EQ(b, (std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0}));
}

TEST(Initialise, PlacesAreSinesAndCosines) {
  const ParameterSpec spec{"p", {50, 6}, {Initialiser::Kind::sinusoids, 0}};
  std::vector<float> p(300);
  initialise(spec, 1, 0, p.data());
  EXPECT_FLOAT_EQ(p[0], 0);
  EXPECT_FLOAT_EQ(p[1], 1);
  EXPECT_FLOAT_EQ(p[7 * 6 + 2], static_cast<float>(std::sin(7 / std::pow(10000.0, 2.0 / 6))));
  EXPECT_FLOAT_EQ(p[7 * 6 + 5], static_cast<float>(std::cos(7 / std::pow(10000.0, 4.0 / 6))));
}

// The schemes that each network's file cites.
TEST(Initialise, NetworksStartAsTheirSourcesSay) {
  const auto first = [](const ModelGraph& graph, const std::string& name) { return layer(graph, name).parameters.at(0).initialiser; };
  const auto starts = [](const ModelGraph& graph, const std::string& name, Initialiser::Kind kind, float value) {
    for (const auto& one : graph.layers)
      for (const auto& spec : one.parameters)
        if (spec.name == name) {
          EXPECT_EQ(spec.initialiser.kind, kind) << graph.name << " " << name;
          EXPECT_FLOAT_EQ(spec.initialiser.value, value) << graph.name << " " << name;
          return;
        }
    ADD_FAILURE() << graph.name << " has no " << name;
  };
  constexpr auto kConstant = Initialiser::Kind::constant, kUniform = Initialiser::Kind::uniform, kNormal = Initialiser::Kind::normal;
  const auto resnet = build("resnet50", kImageNet);
  EXPECT_EQ(first(resnet, "layer1.0.conv2").kind, Initialiser::Kind::normal);
  EXPECT_FLOAT_EQ(first(resnet, "layer1.0.conv2").value, std::sqrt(2.0F / (64 * 9)));
  EXPECT_FLOAT_EQ(first(build("mobilenetv2", kImageNet), "features.1.conv.0.0").value, std::sqrt(2.0F / (32 * 9)));
  EXPECT_FLOAT_EQ(first(build("vgg16", kImageNet), "classifier.0").value, 0.01F);
  EXPECT_FLOAT_EQ(first(build("inceptionv3", {3, 299, 299, 1000}), "AuxLogits.fc").value, 0.001F);
  const auto gpt = build("gpt", kText);
  EXPECT_FLOAT_EQ(layer(gpt, "h.3.attn").parameters.at(2).initialiser.value, 0.02F / std::sqrt(24.0F));
  EXPECT_FLOAT_EQ(first(gpt, "h.3.attn").value, 0.02F);
  const auto transformer = build("transformer", kSentences);
  EXPECT_FLOAT_EQ(first(transformer, "embedding").value, 1 / std::sqrt(512.0F));
  EXPECT_FLOAT_EQ(first(transformer, "encoder.layers.0.linear1").value, std::sqrt(6.0F / (512 + 2048)));
  starts(transformer, "encoder.layers.0.linear1.bias", kConstant, 0);
  starts(transformer, "decoder.layers.5.multihead_attn.in_proj_weight", kUniform, std::sqrt(6.0F / (512 + 3 * 512)));
  starts(transformer, "decoder.layers.5.multihead_attn.in_proj_bias", kConstant, 0);
  starts(transformer, "encoder.layers.0.norm1.weight", kConstant, 1);
  starts(gpt, "wpe.weight", kNormal, 0.01F);
  starts(gpt, "h.0.mlp.c_fc.bias", kConstant, 0);

  // Layers of PyTorch's default: weights and biases by what comes in.
  const auto as_in_torch = [&](const ModelGraph& graph, const std::string& name, float fan_in) {
    for (const auto* tensor : {".weight", ".bias"}) starts(graph, name + tensor, kUniform, 1 / std::sqrt(fan_in));
  };
  as_in_torch(build("lenet", kMnist), "conv2", 6 * 25);
  as_in_torch(build("lenet", kMnist), "fc1", 400);
  as_in_torch(build("mlp", kMnist), "fc1", 784);
  as_in_torch(build("smallcnn", kCifar), "3", 32 * 9);
  as_in_torch(build("alexnet", kImageNet), "features.0", 3 * 121);
  as_in_torch(build("alexnet", kImageNet), "classifier.1", 256 * 36);
  as_in_torch(resnet, "fc", 2048);

  const auto v2 = build("resnet50v2", kImageNet);
  starts(v2, "layer2.0.downsample.weight", kNormal, std::sqrt(2.0F / 512));
  starts(v2, "layer1.0.bn1.weight", kConstant, 1);
  starts(v2, "layer1.0.bn1.bias", kConstant, 0);
  as_in_torch(v2, "fc", 2048);
  starts(build("vgg16", kImageNet), "features.0.bias", kConstant, 0);
  starts(build("vgg16", kImageNet), "classifier.0.bias", kConstant, 0);

  // A frozen encoder's blocks start as the identity, one that trains as a ResNet does.
  const auto frozen = build("captioner", kCaptions), trained = build("captioner[encoder=trained]", kCaptions);
  starts(frozen, "encoder.layer3.7.bn3.weight", kConstant, 0);
  starts(frozen, "encoder.layer3.7.bn2.weight", kConstant, 1);
  starts(trained, "encoder.layer3.7.bn3.weight", kConstant, 1);
  for (const auto* name : {"image.weight", "embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "output.weight"})
    starts(frozen, name, kUniform, 0.08F);
  starts(frozen, "lstm.bias_ih_l0", Initialiser::Kind::forget, 1);
  starts(frozen, "lstm.bias_hh_l0", kConstant, 0);
  starts(frozen, "image.bias", kConstant, 0);
  starts(frozen, "output.bias", kConstant, 0);
}

}  // namespace
}  // namespace ddl

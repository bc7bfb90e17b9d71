#include "ddl/nn/graph.h"

#include <cmath>
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
  refused("null[ms=soon]", kMnist);
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

TEST(GraphBuilder, NamesTheLayerThatDoesNotFit) {
  GraphBuilder net("test", {8, 16, 16});
  const auto said = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said([&] { net.conv2d("far", 0, 8, {{1, 19}, 1, {0, 1}}); }), "[test] layer 'far' needs images of at least 1x17 before it; got 16x16");
  EXPECT_EQ(said([&] { net.conv2d("odd", 0, 9, {3}, {.groups = 2}); }),
            "[test] layer 'odd' has 2 groups of channels; got 8 channels in and 9 out, expected multiples of it");
  EXPECT_EQ(said([&] { net.layer_norm("fine", 0); net.self_attention("maps", 0, {}); }), "[test] layer 'maps' takes samples of 2 dimensions; got 8x16x16");
  EXPECT_EQ(said([&] { net.add("sum", 0, net.flatten("flat", 0)); }), "[test] layer 'sum' adds samples of one shape; got 8x16x16 and 2048");
  EXPECT_EQ(said([&] { net.dropout("all", 0, 1); }), "[test] layer 'all' drops a part; got a rate of 1, expected 0 to less than 1");
}

TEST(Initialise, FollowsItsDistributionAndSeed) {
  const ParameterSpec spec{"w", {200, 50, 3, 3}, Initialiser::he_normal(1800)};
  std::vector<float> a(static_cast<std::size_t>(spec.elements())), b(a.size()), c(a.size());
  initialise(spec, 1, 0, a.data());
  initialise(spec, 1, 0, b.data());
  initialise(spec, 2, 0, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  double squares = 0;
  for (const float x : a) squares += double{x} * x;
  EXPECT_NEAR(squares / static_cast<double>(a.size()) * 900, 1, 0.03);

  const ParameterSpec uniform{"u", {100, 100}, Initialiser::uniform_fan_in(100)};
  std::vector<float> u(10'000);
  initialise(uniform, 1, 1, u.data());
  for (const float x : u) EXPECT_LE(std::abs(x), 0.1F);
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
}

}  // namespace
}  // namespace ddl

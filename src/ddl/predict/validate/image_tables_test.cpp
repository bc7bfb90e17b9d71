#include <gtest/gtest.h>

#include <cmath>

#include "ddl/core/error.h"
#include "ddl/predict/images/networks.h"
#include "ddl/predict/validate/estimate.h"
#include "ddl/predict/validate/validate.h"

// Rows as tables have them, and what was measured: what constants were fitted to stays as good.
namespace ddl {
namespace {

constexpr const char* kHeader =
    "id,model,image,device,devices,devices_per_node,link_intra,link_inter,stack,precision,data,strategy,tp,pp,stages,recompute,micro_batch,global_batch,one_device_samples_per_s,measured_samples_per_s\n";

MeasuredRow row(const std::string& text) {
  const auto table = parse_table(std::string(kHeader) + text + "\n", "rows");
  EXPECT_TRUE(table.unread.empty()) << (table.unread.empty() ? "" : table.unread[0].reason);
  return table.rows.at(0);
}

double error_pct(const MeasuredRow& row) { return 100 * (row.measured_seconds() / estimate_row(row).seconds - 1); }

/// A row, and the most that its rate may be off, %.
struct Measured {
  const char* text;
  double most;
};

void expect_near(const std::vector<Measured>& rows) {
  for (const auto& [text, most] : rows) {
    const auto one = row(text);
    const auto estimate = estimate_row(one);
    EXPECT_NEAR(error_pct(one), 0, most) << one.id;
    double sum = 0;
    for (const auto& [name, seconds] : estimate.terms) sum += seconds;
    EXPECT_NEAR(sum, estimate.seconds, 1e-9 * estimate.seconds) << one.id;
    EXPECT_GT(estimate.sigma, 0.01) << one.id;
  }
}

/// What an estimate of such a row says is wrong; empty: nothing.
std::string refusal(const std::string& text, Code code) {
  try {
    estimate_row(row(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

bool mentions(const Estimate& estimate, const std::string& word) {
  for (const auto& note : estimate.notes)
    if (note.find(word) != std::string::npos) return true;
  return false;
}

// The one-constant baseline computes as much as was predicted: of a pipeline its devices have one batch together, and where no batch is told the time is of one sample.
TEST(ImageTables, TheBaselineComputesWhatIsPriced) {
  const auto of = [](const char* text) { return parse_table(std::string("id,model,device,devices,stack,pp,stages,micro_batch,global_batch,measured_ms,measured_samples_per_s\n") + text + "\n", "rows").rows.at(0); };
  const auto two = of("a,resnet101,p40,2,torchgpipe,2,60/310,32,,100,"), one = of("b,resnet101,p40,1,torchgpipe,1,,32,,100,");
  EXPECT_DOUBLE_EQ(samples_of_step(two), 32);
  EXPECT_DOUBLE_EQ(flops_of(two), flops_of(one));
  const auto replicas = of("c,resnet50,v100,8,horovod/intelmpi,,,32,,100,");
  EXPECT_DOUBLE_EQ(samples_of_step(replicas), 256);
  // Neither batch is told: a time is that of one sample, whatever the number of devices.
  const auto untold = of("d,resnet50,v100,8,horovod/intelmpi,,,,,2.8,"), rate = of("e,resnet50,v100,8,horovod/intelmpi,,,,,,357");
  EXPECT_DOUBLE_EQ(flops_of(untold), flops_of(rate));
  EXPECT_NEAR(estimate_row(untold).seconds, estimate_row(rate).seconds, 1e-12);
}

// Azure Batch AI's Horovod benchmarks: TensorFlow, 64 images a GPU, four GPUs a node.
TEST(ImageTables, Horovod) {
  expect_near({{"azure-K80-resnet101-4-openmpi+nccl,resnet101,3x224x224,k80,4,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,256,30.2,105.7", 5},
               {"azure-K80-resnet101-32-intelmpi,resnet101,3x224x224,k80,32,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,2048,30.2,921.9", 4},
               {"azure-K80-resnet50-1-intelmpi,resnet50,3x224x224,k80,1,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,64,53.0,52.0", 2},
               {"azure-K80-resnet50-2-intelmpi,resnet50,3x224x224,k80,2,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,128,53.0,104.7", 1},
               {"azure-K80-resnet50-2-openmpi+nccl,resnet50,3x224x224,k80,2,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,128,53.0,109.1", 6},
               {"azure-V100-mobilenetv2-32-intelmpi,mobilenetv2,3x224x224,v100,32,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,2048,3698.3,27627.8", 3},
               {"azure-V100-resnet152-32-intelmpi,resnet152,3x224x224,v100,32,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,2048,144.1,2667.4", 6},
               {"azure-V100-resnet152-32-openmpi+nccl,resnet152,3x224x224,v100,32,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,2048,144.1,1814.2", 1},
               {"azure-V100-resnet50-4-openmpi+nccl,resnet50,3x224x224,v100,4,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,256,357.2,1243.6", 3},
               {"azure-V100-resnet50-8-intelmpi,resnet50,3x224x224,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,357.2,1809.0", 6},
               {"azure-V100-resnet50_v2-16-openmpi+nccl,resnet50v2,3x224x224,v100,16,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,1024,364.8,2137.8", 3}});
}

// TensorFlow's benchmarks of May 2017.
TEST(ImageTables, TensorFlow) {
  expect_near({{"tfcnn-15,inceptionv3,3x299x299,p100,8,8,nvlink1,,tensorflow/ps-cpu,fp32,synthetic,data,,,,,64,512,142,1131", 2},
               {"tfcnn-18,alexnet,3x224x224,p100,8,8,nvlink1,,tensorflow/nccl,fp32,synthetic,data,,,,,512,4096,2987,17822", 10},
               {"tfcnn-35,inceptionv3,3x299x299,p100,8,8,nvlink1,,tensorflow/ps-cpu,fp32,real,data,,,,,64,512,142,1079", 2},
               {"tfcnn-38,vgg16,3x224x224,p100,8,8,nvlink1,,tensorflow/nccl,fp32,real,data,,,,,64,512,154,898", 2},
               {"tfcnn-86,inceptionv3,3x299x299,k80,8,8,pcie3,,tensorflow/ps-cpu,fp32,synthetic,data,,,,,64,512,30.5,227", 1},
               {"tfcnn-106,inceptionv3,3x299x299,k80,8,8,pcie3,,tensorflow/ps-cpu,fp32,real,data,,,,,64,512,30.5,225", 1},
               {"tfcnn-143,resnet50,3x224x224,k80,8,8,pcie3,,tensorflow/repl-nonccl,fp32,synthetic,data,,,,,64,512,52.4,384", 3},
               {"tfcnn-145,alexnet,3x224x224,k80,8,8,pcie3,,tensorflow/ps-gpu,fp32,synthetic,data,,,,,512,4096,684,4853", 4},
               {"tfcnn-163,resnet50,3x224x224,k80,8,8,pcie3,,tensorflow/repl-nonccl,fp32,real,data,,,,,64,512,52.4,373", 4},
               {"tfcnn-165,vgg16,3x224x224,k80,8,8,pcie3,,tensorflow/ps-gpu,fp32,real,data,,,,,32,256,36.3,242", 1},
               {"tfcnn-185,inceptionv3,3x299x299,k80,8,8,pcie3,,tensorflow/dist-repl,fp32,synthetic,data,,,,,64,512,29.7,229", 4}});
}

// NVIDIA DeepLearningExamples, real data through DALI. The table prints no batch: seconds are those of a sample.
TEST(ImageTables, Apex) {
  expect_near({{"nvidia-0,resnet50,3x224x224,a100-80gb,1,8,nvlink3,,apex/nccl,tf32,real,data,,,,,,,938,938", 1},
               {"nvidia-1,resnet50,3x224x224,a100-80gb,8,8,nvlink3,,apex/nccl,tf32,real,data,,,,,,,938,7248", 1},
               {"nvidia-3,resnet50,3x224x224,a100-80gb,8,8,nvlink3,,apex/nccl,fp16,real,data,,,,,,,2470,16621", 1},
               {"nvidia-5,resnet50,3x224x224,v100-16gb,8,8,nvlink2,,apex/nccl,fp32,real,data,,,,,,,367,2855", 1},
               {"nvidia-7,resnet50,3x224x224,v100-16gb,8,8,nvlink2,,apex/nccl,fp16,real,data,,,,,,,1200,8322", 1}});
}

// torchgpipe 0.0.7's documentation.
TEST(ImageTables, Torchgpipe) {
  expect_near({{"torchgpipe-ResNet-101-baseline,resnet101,3x224x224,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,1,,none,118,118,95.862,95.862", 1},
               {"torchgpipe-ResNet-101-pipeline-1,resnet101,3x224x224,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,1,370,except_last,110,220,95.862,81.796", 1},
               {"torchgpipe-ResNet-101-pipeline-2,resnet101,3x224x224,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,135/235,except_last,14,25000,95.862,135.539", 4},
               {"torchgpipe-ResNet-101-pipeline-4,resnet101,3x224x224,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,44/92/124/110,except_last,22,5632,95.862,265.958", 5},
               {"torchgpipe-AmoebaNet-D-n2m1,AmoebaNet-D(18;256),3x224x224,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,7/17,full,96,96,,26.733", 2},
               {"torchgpipe-AmoebaNet-D-n2m4,AmoebaNet-D(18;256),3x224x224,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,9/15,except_last,64,256,,41.133", 3},
               {"torchgpipe-AmoebaNet-D-n2m32,AmoebaNet-D(18;256),3x224x224,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,9/15,except_last,40,1280,,47.386", 3},
               {"torchgpipe-AmoebaNet-D-n4m1,AmoebaNet-D(18;256),3x224x224,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,3/4/5/12,full,160,160,,26.827", 1},
               {"torchgpipe-AmoebaNet-D-n4m4,AmoebaNet-D(18;256),3x224x224,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,3/6/7/8,except_last,90,360,,44.543", 22},
               {"torchgpipe-AmoebaNet-D-n4m32,AmoebaNet-D(18;256),3x224x224,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,3/6/7/8,except_last,36,1152,,72.412", 4},
               {"torchgpipe-U-Net-baseline,U-Net(5;64),3x192x192,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,1,,none,40,40,28.500,28.500", 1},
               {"torchgpipe-U-Net-pipeline-1,U-Net(5;64),3x192x192,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,1,241,except_last,40,80,28.500,24.456", 1},
               {"torchgpipe-U-Net-pipeline-2,U-Net(5;64),3x192x192,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,104/137,except_last,16,512,28.500,35.502", 1},
               {"torchgpipe-U-Net-pipeline-4,U-Net(5;64),3x192x192,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,30/66/84/61,except_last,32,512,28.500,67.042", 7}});
}

constexpr const char* kMemoryHeader = "id,model,image,device,devices,devices_per_node,stack,precision,strategy,pp,stages,recompute,micro_batch,global_batch,measured_memory_bytes,oom\n";

Validation of_memory(const std::string& text) { return validate(parse_table(std::string(kMemoryHeader) + text + "\n", "rows")); }

// torchgpipe 0.0.7's table of memory: all that its allocator had, of all devices together.
TEST(ImageTables, MemoryAsPublished) {
  constexpr const char* kRows[] = {"U-Net baseline,U-Net(6;72),3x192x192,p40,1,8,torchgpipe,fp32,single,1,,none,32,32,21797000000,0",
                                   "U-Net pipeline-1,U-Net(11;128),3x192x192,p40,1,8,torchgpipe,fp32,pipeline,1,505,except_last,1,32,22012000000,0",
                                   "U-Net pipeline-2,U-Net(24;128),3x192x192,p40,2,8,torchgpipe,fp32,pipeline,2,526/551,except_last,1,32,46600000000,0"};
  for (const auto* text : kRows) {
    const auto found = of_memory(text);
    EXPECT_TRUE(found.skipped.empty()) << text << (found.skipped.empty() ? "" : found.skipped[0].reason);
    EXPECT_EQ(found.memory_rows, 1) << text;
    EXPECT_LT(found.memory_mape, 10) << text;
    EXPECT_EQ(found.oom_right, 1) << text;
  }
  const auto none = of_memory("AmoebaNet-D baseline,AmoebaNet-D(18;208),3x224x224,p40,1,8,torchgpipe,fp32,single,1,,none,128,128,,1");
  EXPECT_EQ(none.oom_rows, 1);
  EXPECT_EQ(none.oom_right, 1);
  // That it ran may be all that a row says.
  const auto ran = of_memory("U-Net pipeline-2,U-Net(24;128),3x192x192,p40,2,8,torchgpipe,fp32,pipeline,2,526/551,except_last,1,32,,0");
  EXPECT_TRUE(ran.skipped.empty());
  EXPECT_EQ(ran.oom_rows, 1);
  EXPECT_EQ(ran.oom_right, 1);
}

// What was trained fitted its device.
TEST(ImageTables, WhatRanFits) {
  for (const auto* text : {"a,resnet101,3x224x224,p40,1,8,,,torchgpipe,fp32,synthetic,single,,1,,none,118,118,95.862,95.862", "b,AmoebaNet-D(18;256),3x224x224,p40,2,8,,,torchgpipe,fp32,synthetic,pipeline,,2,7/17,full,96,96,,26.733",
                           "c,AmoebaNet-D(18;256),3x224x224,p40,4,8,,,torchgpipe,fp32,synthetic,pipeline,,4,3/4/5/12,full,160,160,,26.827",
                           "d,U-Net(5;64),3x192x192,p40,1,8,,,torchgpipe,fp32,synthetic,single,,1,,none,40,40,28.500,28.500",
                           "e,resnet152,3x224x224,k80,8,8,,,tensorflow/ps-cpu,fp32,synthetic,data,,,,,32,256,20,150", "f,vgg16,3x224x224,p100,8,8,,,tensorflow/nccl,fp32,synthetic,data,,,,,64,512,154,898"}) {
    const auto estimate = estimate_row(row(text));
    EXPECT_TRUE(estimate.fits) << text << " " << estimate.memory_bytes / 1e9;
    EXPECT_GT(estimate.memory_bytes, 1e9) << text;
  }
  // As much again of each does not.
  EXPECT_FALSE(estimate_row(row("a,resnet101,3x224x224,p40,1,8,,,torchgpipe,fp32,synthetic,single,,1,,none,236,236,95.862,95.862")).fits);
  EXPECT_FALSE(estimate_row(row("d,U-Net(5;64),3x192x192,p40,1,8,,,torchgpipe,fp32,synthetic,single,,1,,none,80,80,28.500,28.500")).fits);
}

// Layers that torchgpipe's benchmarks cut (their splits add up to these), and parameters as published: He et al. 2016; torchgpipe's table of memory.
TEST(ImageTables, SequentialFormsAreTorchgpipes) {
  const auto layers = [](const char* model) { return sequential_network(model, {}).size(); };
  const auto millions = [](const char* model) { return parameters_of(operators_of(sequential_network(model, {}))) / 1e6; };
  EXPECT_EQ(layers("resnet101"), 370);
  EXPECT_EQ(layers("U-Net(5;64)"), 241);
  EXPECT_EQ(layers("AmoebaNet-D(18;256)"), 24);
  EXPECT_NEAR(millions("resnet101"), 44.549160, 1e-6);
  EXPECT_NEAR(millions("AmoebaNet-D(18;208)"), 81.5, 0.1);
  EXPECT_NEAR(millions("AmoebaNet-D(18;416)"), 319.0, 0.1);
  EXPECT_NEAR(millions("AmoebaNet-D(18;544)"), 542.7, 0.5);
  EXPECT_NEAR(millions("U-Net(6;72)"), 362.2, 0.1);
  EXPECT_NEAR(millions("U-Net(11;128)"), 2210, 5);
  EXPECT_NEAR(millions("U-Net(24;128)"), 4990, 5);
}

// The flat form of a network and its sequential one are the same work; an auxiliary head is not trained by benchmarks.
TEST(ImageTables, NetworksAreOurGraphs) {
  const auto& flat = image_network("resnet101", {});
  const auto sequential = operators_of(sequential_network("resnet101", {}));
  EXPECT_EQ(flat.size(), sequential.size());
  EXPECT_EQ(parameters_of(flat), parameters_of(sequential));
  EXPECT_EQ(flops_of(flat), flops_of(sequential));
  EXPECT_NEAR(parameters_of(image_network("inceptionv3", {})) / 1e6, 23.83, 0.01);
  EXPECT_NEAR(parameters_of(image_network("vgg19", {})) / 1e6, 143.667, 0.001);
  EXPECT_NEAR(parameters_of(image_network("resnet152v2", {})) / 1e6, 60.19, 0.01);
}

// Of a step without a global batch the operations are those of the samples that are priced: of all devices.
TEST(ImageTables, OperationsOfAStepAreOfAllItsSamples) {
  const auto of = [](const std::string& cells) { return flops_of(parse_table("id,model,device,devices,stack,micro_batch,measured_ms\na," + cells + "\n", "rows").rows.at(0)); };
  EXPECT_DOUBLE_EQ(of("resnet50,v100,8,horovod/intelmpi,64,205") / of("resnet50,v100,1,horovod/intelmpi,64,190"), 8);
  EXPECT_DOUBLE_EQ(of("resnet50,v100,1,horovod/intelmpi,64,190") / of("resnet50,v100,1,horovod/intelmpi,32,190"), 2);
}

// flops_of() knows whatever the tables have: three times the forward pass.
TEST(ImageTables, FlopsOfEveryNetwork) {
  for (const auto* model : {"resnet50", "resnet101", "resnet152", "resnet50v2", "resnet101v2", "mobilenetv2", "alexnet", "vgg16", "inceptionv3", "U-Net(5;64)", "AmoebaNet-D(18;256)"})
    EXPECT_GT(flops_of(row(fmt::format("a,{},,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,,,none,1,1,,1", model))), 1e9) << model;
  EXPECT_NEAR(flops_of(row("a,resnet50,3x224x224,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,,,none,2,2,,1")) / 1e9, 3 * 2 * 2 * 4.09, 0.1);
}

// Without a batch seconds are those of one sample, with one of a step; gradients that are accumulated cost passes.
TEST(ImageTables, SecondsAreOfWhatTheTablePrints) {
  const auto step = estimate_row(row("a,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,300,1"));
  const auto sample = estimate_row(row("a,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,,300,1"));
  const auto twice = estimate_row(row("a,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,1024,300,1"));
  EXPECT_NEAR(step.seconds, 512 * sample.seconds, 1e-9);
  EXPECT_NEAR(twice.seconds, step.seconds + 64.0 / 300, 1e-9);
  EXPECT_TRUE(mentions(twice, "2 passes"));
  EXPECT_TRUE(mentions(estimate_row(row("a,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,,,300,1")), "micro_batch is empty"));
}

// What was never fitted says so: its interval is wider, and what stands in for it is named.
TEST(ImageTables, WhatWasNotFittedHasAWiderInterval) {
  const auto fitted = estimate_row(row("a,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,300,1"));
  const auto device = estimate_row(row("b,resnet50,,p100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,200,1"));
  const auto unrated = estimate_row(row("c,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,,1"));
  const auto larger = estimate_row(row("d,resnet50,,v100,256,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,16384,300,1"));
  EXPECT_GT(device.sigma, fitted.sigma);
  EXPECT_GT(unrated.sigma, 0.3);
  EXPECT_GT(larger.sigma, 0.12);
  EXPECT_TRUE(mentions(unrated, "datasheet"));
  EXPECT_TRUE(mentions(device, "p100 was not measured with horovod-intelmpi"));
  EXPECT_TRUE(mentions(larger, "more than 32 devices"));
  EXPECT_TRUE(fitted.notes.empty());
  const auto network = estimate_row(row("m,vgg16,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,300,1"));
  EXPECT_TRUE(mentions(network, "vgg16 was not measured with horovod-intelmpi"));
  EXPECT_GT(network.sigma, fitted.sigma);
  const auto batch = estimate_row(row("n,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,256,2048,300,1"));
  EXPECT_TRUE(mentions(batch, "256 samples a device, more than 64, was not measured with horovod-intelmpi"));
  EXPECT_GT(batch.sigma, 0.08);
  for (const char* node : {"8", "2"}) {
    const auto crowded = estimate_row(row(fmt::format("p,resnet50,,v100,8,{},pcie3,infiniband,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,300,1", node)));
    EXPECT_TRUE(mentions(crowded, fmt::format("a node of {} devices was not measured with horovod-intelmpi", node)));
    EXPECT_GT(crowded.sigma, fitted.sigma);
  }
  // Another size of a network that was.
  EXPECT_FALSE(mentions(estimate_row(row("o,U-Net(6;72),3x192x192,p40,1,8,,,torchgpipe,fp32,synthetic,single,,1,,none,32,32,,1")), "U-Net(6;72) was not"));

  const auto sockets = estimate_row(row("e,resnet50,,v100,32,4,pcie3,infiniband,horovod/openmpi+nccl,fp32,synthetic,data,,,,,64,2048,300,1"));
  const auto verbs = estimate_row(row("f,resnet50,,v100,32,4,pcie3,100Gbps,ddp/nccl,fp32,synthetic,data,,,,,64,2048,300,1"));
  EXPECT_TRUE(mentions(verbs, "'ddp/nccl' has no profile; taken for horovod-nccl"));
  EXPECT_LT(verbs.seconds, sockets.seconds);
  EXPECT_GT(verbs.sigma, 0.2);
  EXPECT_TRUE(mentions(verbs, "the interval is wider for it"));
  EXPECT_TRUE(mentions(estimate_row(row("g,resnet50,,v100,8,4,pcie3,infiniband,horovod/mpich,fp32,synthetic,data,,,,,64,512,300,1")), "taken for horovod-intelmpi"));
  EXPECT_TRUE(mentions(estimate_row(row("h,resnet50,,v100,8,4,pcie3,infiniband,horovod/intelmpi,fp32,real,data,,,,,64,512,300,1")), "data is real"));
  EXPECT_TRUE(mentions(estimate_row(row("i,resnet50,,k80,8,8,pcie3,,tensorflow/collective,fp32,synthetic,data,,,,,64,512,50,1")), "'collective' were not measured"));
  EXPECT_TRUE(mentions(estimate_row(row("j,resnet50,,h100-80gb,8,8,nvlink4,,apex/nccl,tf32,real,data,,,,,,,2000,1")), "loader_images_per_s"));
  // Twice the wire, half of what updates between nodes expose.
  const auto slow = estimate_row(row("k,vgg16,,k80,16,8,pcie3,20Gbps,tensorflow/dist-repl,fp32,synthetic,data,,,,,32,512,30,1"));
  const auto fast = estimate_row(row("l,vgg16,,k80,16,8,pcie3,2x20Gbps,tensorflow/dist-repl,fp32,synthetic,data,,,,,32,512,30,1"));
  EXPECT_NEAR(slow.seconds - fast.seconds, 0.5 * 0.444e-3 * 4 * 138.357544, 1e-6);
}

// Wires that a stack was fitted over change nothing; others do, as far as the stack minds them, and widen the interval.
// Real data where made-up data was measured, images of another size, batches that pipelines never had, a batch where rows print none: wider, and told.
TEST(ImageTables, DataImagesAndBatchesThatWereNotFitted) {
  const auto made_up = estimate_row(row("a,resnet50,3x224x224,k80,4,4,,,horovod/intelmpi,fp32,synthetic,data,,,,,64,,50,1"));
  const auto read = estimate_row(row("a,resnet50,3x224x224,k80,4,4,,,horovod/intelmpi,fp32,real,data,,,,,64,,50,1"));
  const auto small = estimate_row(row("a,resnet50,3x160x160,k80,4,4,,,horovod/intelmpi,fp32,synthetic,data,,,,,64,,50,1"));
  EXPECT_FALSE(mentions(made_up, "was not measured"));
  EXPECT_TRUE(mentions(read, "real data was not measured with horovod-intelmpi"));
  EXPECT_GT(read.sigma, 2 * made_up.sigma);
  EXPECT_TRUE(mentions(small, "images of 3x160x160 was not measured with horovod-intelmpi"));
  const auto nccl = [](const char* model, const char* image, const char* data, int batch) { return estimate_row(row(fmt::format("a,{},{},v100-16gb,4,4,,,horovod/nccl,fp32,{},data,,,,,{},,350,1", model, image, data, batch))); };
  const double as_others = nccl("resnet50", "3x224x224", "synthetic", 64).sigma;
  for (const auto& other : {nccl("alexnet", "3x224x224", "synthetic", 64), nccl("resnet50", "3x64x64", "synthetic", 64), nccl("resnet50", "3x224x224", "real", 64), nccl("resnet50", "3x224x224", "synthetic", 1)}) EXPECT_GT(other.sigma, as_others);
  EXPECT_GT(small.sigma, made_up.sigma);
  const auto fits = estimate_row(row("b,resnet101,3x224x224,p40,2,2,,,torchgpipe,fp32,synthetic,pipeline,,2,185/185,except_last,25,5000,95,1"));
  const auto tiny = estimate_row(row("b,resnet101,3x224x224,p40,2,2,,,torchgpipe,fp32,synthetic,pipeline,,2,185/185,except_last,1,5000,95,1"));
  EXPECT_FALSE(mentions(fits, "samples a device"));
  EXPECT_TRUE(mentions(tiny, "1 samples a device, fewer than 14, was not measured with torchgpipe"));
  EXPECT_GT(tiny.sigma, fits.sigma);
  EXPECT_TRUE(mentions(estimate_row(row("c,resnet50,3x224x224,v100-16gb,8,8,,,apex/nccl,fp32,real,data,,,,,128,,,1")), "a batch of 128 a device: rows of fitting print none; it was not measured with apex"));
  EXPECT_FALSE(mentions(estimate_row(row("c,resnet50,3x224x224,v100-16gb,8,8,,,apex/nccl,fp32,real,data,,,,,,,,1")), "a batch of"));
  EXPECT_TRUE(mentions(estimate_row(row("c,resnet50,3x224x224,v100-16gb,8,8,,,apex/nccl,fp32,synthetic,data,,,,,,,,1")), "synthetic data was not measured with apex"));
}

// What replicas have no model of is refused, not priced as if the column were empty; what Horovod exchanges after backward is all exposed.
TEST(ImageTables, ColumnsOfReplicasAreReadOrRefused) {
  constexpr const char* header = "id,model,device,devices,devices_per_node,stack,strategy,dp,sharded,sequence_parallel,interleave,recompute,overlap,micro_batch,one_device_samples_per_s,measured_samples_per_s\n";
  const auto of = [&](const std::string& stack, const std::string& end) { return estimate_row(parse_table(fmt::format("{}a,resnet50,k80,4,4,{},{},64,50,1\n", header, stack, end), "rows").rows.at(0)); };
  const std::tuple<const char*, const char*, const char*> rows[] = {{"horovod/intelmpi", "data,4,1,,,,", "sharded; got 1, expected 0"},
                                                                    {"horovod/intelmpi", "data,4,,1,,,", "sequence_parallel; got 1, expected 0"},
                                                                    {"horovod/intelmpi", "data,4,,,2,,", "interleave; got 2, expected 1"},
                                                                    {"horovod/intelmpi", "data,4,,,,full,", "recompute; got full, expected none"},
                                                                    {"tensorflow/ps-cpu", "data,4,,,,,0", "overlap; got 0, expected 1"},
                                                                    {"horovod/intelmpi", "data,2,,,,,", "dp; got 2, expected devices, 4"},
                                                                    {"horovod/intelmpi", "data,1,,,,,", "dp; got 1, expected devices, 4"},
                                                                    {"horovod/intelmpi", "single,,,,,,", "strategy; got 'single' with 4 devices"},
                                                                    {"horovod/intelmpi", "tensor,,,,,,", "strategy; got 'tensor'"}};
  for (const auto& [stack, end, expected] : rows) {
    try {
      of(stack, end);
      ADD_FAILURE() << end;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
  for (const auto* size : {"hidden", "layers", "seq", "kv_heads"})
    EXPECT_THROW(estimate_row(parse_table(fmt::format("id,model,device,devices,stack,micro_batch,{},measured_samples_per_s\na,resnet50,k80,4,horovod/intelmpi,64,1024,1\n", size), "rows").rows.at(0)), Error) << size;
  const auto beside = of("horovod/intelmpi", "data,4,0,,1,none,1"), after = of("horovod/intelmpi", "data,4,,,,,0");
  const auto exposed = [](const Estimate& estimate) {
    for (const auto& [term, seconds] : estimate.terms)
      if (term == "gradients") return seconds;
    return -1.0;
  };
  EXPECT_EQ(beside.seconds, of("horovod/intelmpi", "data,,,,,,").seconds);
  EXPECT_GT(exposed(after), 10 * exposed(beside));
  EXPECT_GT(after.seconds, beside.seconds);
}

TEST(ImageTables, WiresAreTheRows) {
  const auto with = [](const char* device, const char* inside, const char* between, const char* stack, int devices) {
    return estimate_row(row(fmt::format("a,resnet50,,{},{},4,{},{},{},fp32,synthetic,data,,,,,64,{},3000,1", device, devices, inside, between, stack, 64 * devices)));
  };
  const auto pcie = with("v100", "pcie3", "infiniband", "horovod/openmpi+nccl", 4), silent = with("v100", "", "", "horovod/openmpi+nccl", 4), nvlink = with("v100", "nvlink2", "infiniband", "horovod/openmpi+nccl", 4);
  EXPECT_EQ(pcie.seconds, silent.seconds);
  EXPECT_LT(nvlink.seconds, pcie.seconds);
  EXPECT_GT(nvlink.sigma, pcie.sigma);
  EXPECT_TRUE(mentions(nvlink, "nvlink2 was not measured with horovod-openmpi+nccl"));
  EXPECT_TRUE(pcie.notes.empty());
  // A card with NVLink that was put on PCIe.
  EXPECT_GT(with("p100", "pcie3", "infiniband", "horovod/openmpi+nccl", 4).seconds, with("p100", "nvlink1", "infiniband", "horovod/openmpi+nccl", 4).seconds);
  const auto edr = with("v100", "pcie3", "100Gbps", "horovod/nccl", 16), ndr = with("v100", "pcie3", "8xndr", "horovod/nccl", 16), ethernet = with("v100", "pcie3", "10GbE", "horovod/nccl", 16);
  EXPECT_LT(edr.seconds, ethernet.seconds);
  EXPECT_LE(ndr.seconds, edr.seconds);
  EXPECT_NE(refusal("a,resnet50,,v100,8,4,pcie3,fast,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,300,1", Code::invalid_argument).find("link_inter; got 'fast'"), std::string::npos);
}

TEST(ImageTables, RowsThatCannotBePricedSayWhy) {
  EXPECT_NE(refusal("a,resnet5,,k80,8,4,pcie3,,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,50,1", Code::not_found).find("did you mean 'resnet50'"), std::string::npos);
  EXPECT_NE(refusal("b,vgg16,,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,3/3,none,64,512,50,1", Code::not_found).find("U-Net(convolutions;channels)"), std::string::npos);
  EXPECT_NE(refusal("c,transformer,,k80,8,4,pcie3,,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,50,1", Code::unsupported).find("convolutional"), std::string::npos);
  EXPECT_NE(refusal("d,resnet101,,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,100/200,none,64,512,50,1", Code::invalid_argument).find("got 100/200, 300 layers in all, expected the 370"), std::string::npos);
  EXPECT_NE(refusal("e,resnet101,,p40,4,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,4,135/235,none,64,512,50,1", Code::invalid_argument).find("as many as devices, 4"), std::string::npos);
  EXPECT_NE(refusal("f,resnet101,,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,,none,64,512,50,1", Code::invalid_argument).find("stages is empty"), std::string::npos);
  EXPECT_NE(refusal("g,resnet101,,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,135/235,none,,,50,1", Code::invalid_argument).find("global_batch is empty"), std::string::npos);
  EXPECT_NE(refusal("h,resnet101,,p40,2,8,pcie3,,torchgpipe,fp32,synthetic,pipeline,,2,135/235,selective,14,28,50,1", Code::invalid_argument).find("except_last"), std::string::npos);
  EXPECT_NE(refusal("i,resnet50,,k80,8,4,pcie3,,horovod/intelmpi,fp32,synthetic,data,,,,,64,500,50,1", Code::invalid_argument).find("a multiple of micro_batch x devices"), std::string::npos);
  EXPECT_NE(refusal("j,resnet50,,k80,8,4,pcie3,,horovod/intelmpi,fp32,synthetic,tensor,2,,,,64,512,50,1", Code::unsupported).find("expected data parallelism"), std::string::npos);
  EXPECT_NE(refusal("k,resnet50,,k80,8,4,pcie3,,horovod/intelmpi,fp16,synthetic,data,,,,,64,512,50,1", Code::unsupported).find("no peak of precision fp16"), std::string::npos);
  EXPECT_NE(refusal("l,resnet50,,k8,8,4,pcie3,,horovod/intelmpi,fp32,synthetic,data,,,,,64,512,50,1", Code::not_found).find("did you mean 'k80'"), std::string::npos);
  EXPECT_NE(refusal("m,resnet101,3x200x200,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,,,none,8,8,,1", Code::unsupported).find("halves 5 times"), std::string::npos);
  EXPECT_NE(refusal("n,resnet101,,p40,1,8,pcie3,,torchgpipe,fp32,synthetic,single,,,,none,8,8,100000,1", Code::invalid_argument).find("faster than launching"), std::string::npos);
}

}  // namespace
}  // namespace ddl

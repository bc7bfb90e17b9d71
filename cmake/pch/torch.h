#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

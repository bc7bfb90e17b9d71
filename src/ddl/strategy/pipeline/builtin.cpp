#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {

Registry<PipelineSchedule> builtin_pipeline_schedules() {
  Registry<PipelineSchedule> all("pipeline schedule");
  all.add({"gpipe", "every forward, then every backward", gpipe()});
  all.add({"1f1b", "one forward and one backward in turn: as long as gpipe, holding P micro-batches, not all", one_forward_one_backward()});
  all.add({"interleaved-1f1b", "1f1b over several stages a worker: a shorter bubble for more transfers", interleaved_1f1b()});
  all.add({"looped-bfs", "gpipe over several stages a worker, one stage after the other", looped_bfs()});
  all.add({"zb-h1", "1f1b with the weights' gradients put off into its bubble, in the same memory", zb_h1()});
  all.add({"zbv", "two stages a worker, there and back; without a bubble where all passes take as long", zb_v()});
  all.add({"dualpipev", "DeepSeek's DualPipe, cut in half: two stages a worker, there and back", dualpipe_v()});
  all.add({"pipedream", "asynchronous: each batch one micro-batch, as many versions of weights as workers behind", pipedream()});
  all.add({"pipedream-2bw", "asynchronous: no flush between steps, two versions of the weights", pipedream_2bw()});
  return all;
}

}  // namespace ddl

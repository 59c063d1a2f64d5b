# The only build file. `make help` lists the targets.
#
# Every folder is a library of its modules; programs are the folder's main files linked with what
# they call. SAN=address or SAN=thread builds beside the plain build.

CUDA_HOME ?= /usr/local/cuda
SAN ?=
BUILD := build$(if $(SAN),-$(SAN))
CC := gcc
NVCC := $(CUDA_HOME)/bin/nvcc

san_flags_address := -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
san_flags_thread := -fsanitize=thread -fno-omit-frame-pointer
SAN_FLAGS := $(san_flags_$(SAN))
WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Werror
CFLAGS := -std=gnu2x -O2 -g $(WARNINGS) $(SAN_FLAGS) -D_GNU_SOURCE -I. -I$(BUILD) -MMD -MP
# The simulator computes as a GPU does: no contraction, no reassociation, vectors of the machine's
# common baseline.
SIM_CFLAGS := -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -fno-strict-aliasing -march=x86-64-v3
CUDA_CFLAGS := -isystem $(CUDA_HOME)/include
LDFLAGS := $(SAN_FLAGS) -Wl,--as-needed

export CUDA_HOME

# What check and demo build with, unless make was told how many jobs.
parallel = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- what there is ----

common_src := $(wildcard common/*.c)
task_dirs := $(sort $(wildcard tasks/[0-9][0-9][0-9]_*))
tasks_src := $(wildcard tasks/*.c) $(wildcard $(addsuffix /task.c,$(task_dirs))) $(BUILD)/tasks/table.c
server_main := server/main.c
server_src := $(filter-out $(server_main),$(wildcard server/*.c)) $(BUILD)/server/schema.c
worker_main := worker/main.c worker/judge.c worker/rank.c worker/init.c worker/probe.c worker/compile.c
worker_src := $(filter-out $(worker_main),$(wildcard worker/*.c)) $(BUILD)/worker/kernels_image.c
sim_main := sim/simd.c
sim_cuda_src := $(wildcard sim/cuda_*.c)
sim_cudart_src := $(wildcard sim/cudart_*.c)
sim_nccl_src := $(wildcard sim/nccl_*.c)
sim_cublas_src := $(wildcard sim/cublas_*.c)
sim_cublaslt_src := $(wildcard sim/cublaslt_*.c)
sim_src := $(filter-out $(sim_main) $(sim_cuda_src) $(sim_cudart_src) $(sim_nccl_src) \
    $(sim_cublas_src) $(sim_cublaslt_src),$(wildcard sim/*.c))
client_main := client/main.c
client_src := $(filter-out $(client_main),$(wildcard client/*.c))
test_src := $(wildcard tests/test_*.c)
test_support_src := $(filter-out $(test_src),$(wildcard tests/*.c))

objs = $(patsubst %.c,$(BUILD)/%.o,$(patsubst $(BUILD)/%,%,$(1)))
lib_common := $(BUILD)/libcommon.a
lib_tasks := $(BUILD)/libtasks.a
lib_server := $(BUILD)/libserver.a
lib_worker := $(BUILD)/libworker.a
lib_sim := $(BUILD)/libsim.a
lib_client := $(BUILD)/libclient.a
lib_test := $(BUILD)/libtest.a

programs := $(addprefix $(BUILD)/bin/,$(if $(wildcard client/main.c),pkb) \
    $(if $(wildcard server/main.c),pkb-server) $(if $(wildcard worker/main.c),pkb-worker) \
    $(if $(wildcard worker/judge.c),pkb-judge) $(if $(wildcard worker/rank.c),pkb-rank) pkb-init pkb-probe pkb-compile \
    $(if $(wildcard sim/simd.c),pkb-simd))
sim_libs := $(if $(sim_cuda_src),$(BUILD)/lib/sim/libcuda.so.1) \
    $(if $(sim_cudart_src),$(BUILD)/lib/sim/libcudart.so.13) $(BUILD)/lib/nccl/libnccl.so.2 \
    $(BUILD)/lib/sim/libcublas.so.13
tests := $(patsubst tests/%.c,$(BUILD)/tests/%,$(test_src))

.PHONY: all demo check check-all check-gpu gpu-programs recorded-programs fuzz fuzz-carry bench lint format clean help deps tests
all: $(programs) $(sim_libs) ## build everything

# ---- libraries and objects ----

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OBJ_CFLAGS) -c $< -o $@
$(BUILD)/%.o: $(BUILD)/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

$(call objs,$(sim_src) $(sim_main)): OBJ_CFLAGS = $(SIM_CFLAGS) $(CUDA_CFLAGS)
$(call objs,$(sim_cuda_src) $(sim_cudart_src)): OBJ_CFLAGS = $(CUDA_CFLAGS) -fPIC -fvisibility=hidden
$(call objs,$(sim_nccl_src) $(sim_cublas_src) $(sim_cublaslt_src)): OBJ_CFLAGS = $(CUDA_CFLAGS) -fPIC
$(call objs,$(worker_src) $(worker_main)): OBJ_CFLAGS = $(CUDA_CFLAGS)
$(call objs,$(tasks_src)): OBJ_CFLAGS = -ffp-contract=off
$(call objs,$(test_src)): OBJ_CFLAGS = $(CUDA_CFLAGS)
# The shim libraries take these modules in, so they are position independent.
$(call objs,$(common_src)): OBJ_CFLAGS = -fPIC

define archive
$(1): $(2)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(eval $(call archive,$(lib_common),$(call objs,$(common_src))))
$(eval $(call archive,$(lib_tasks),$(call objs,$(tasks_src))))
$(eval $(call archive,$(lib_server),$(call objs,$(server_src))))
$(eval $(call archive,$(lib_worker),$(call objs,$(worker_src))))
$(eval $(call archive,$(lib_sim),$(call objs,$(sim_src))))
$(eval $(call archive,$(lib_client),$(call objs,$(client_src))))
$(eval $(call archive,$(lib_test),$(call objs,$(test_support_src))))

# The list of tasks and their statements, made from the folders.
$(BUILD)/tasks/table.c: tasks/table.sh $(task_dirs) $(addsuffix /README.md,$(task_dirs)) \
    $(addsuffix /baseline.cu,$(task_dirs)) tasks/solution.h
	@mkdir -p $(@D)
	sh tasks/table.sh $(task_dirs) >$@.new && mv $@.new $@

# The migrations and the API's description, compiled into the server.
$(BUILD)/server/schema.c: server/embed.sh $(wildcard schema/*.sql) $(wildcard schema/*.yaml)
	@mkdir -p $(@D)
	sh server/embed.sh $(filter schema/%,$^) >$@.new && mv $@.new $@

# The kernels of judge and ranks: an image that they load where the device is no simulator.
$(BUILD)/worker/kernels.fatbin: worker/kernels.cu worker/kernels.h worker/keystream.h worker/reveal.h
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -I. --fatbin -gencode arch=compute_90a,code=sm_90a \
	    -gencode arch=compute_80,code=compute_80 $< -o $@
$(BUILD)/worker/kernels_image.c: $(BUILD)/worker/kernels.fatbin
	{ echo 'extern const unsigned char kernels_image[];'; \
	    echo '_Alignas(16) const unsigned char kernels_image[] = {'; \
	    od -An -v -tx1 $< | sed -e 's/ \(..\)/0x\1,/g'; echo '};'; } >$@.new && mv $@.new $@

# ---- programs ----

common_libs := -ljansson -lcurl
cuda_libs := -L$(CUDA_HOME)/lib64 -lcudart -L$(CUDA_HOME)/lib64/stubs -lcuda

$(BUILD)/bin/pkb: $(call objs,$(client_main)) $(lib_client) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ $(common_libs) -o $@
$(BUILD)/bin/pkb-server: $(call objs,$(server_main)) $(lib_server) $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ -lmicrohttpd -lsqlite3 -lsodium -lzstd $(common_libs) -lm -o $@
$(BUILD)/bin/pkb-worker: $(call objs,worker/main.c) $(lib_worker) $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ -luv -lsodium -lseccomp $(common_libs) -lm -o $@
$(BUILD)/bin/pkb-judge: $(call objs,worker/judge.c) $(lib_worker) $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ $(cuda_libs) $(common_libs) -lm -o $@
$(BUILD)/bin/pkb-rank: $(call objs,worker/rank.c) $(lib_worker) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ $(cuda_libs) $(common_libs) -ldl -o $@
# Static and without sanitizers: they run in views that hold next to nothing.
$(BUILD)/bin/pkb-init $(BUILD)/bin/pkb-probe: $(BUILD)/bin/pkb-%: worker/%.c worker/init.h
	@mkdir -p $(@D)
	$(CC) $(filter-out $(SAN_FLAGS) -MMD -MP,$(CFLAGS)) -static $< -o $@
compile_parts := worker/compile.c worker/recipe.c common/buffer.c common/error.c common/mem.c
$(BUILD)/bin/pkb-compile: $(compile_parts) worker/recipe.h
	@mkdir -p $(@D)
	$(CC) $(filter-out $(SAN_FLAGS) -MMD -MP,$(CFLAGS)) -static $(compile_parts) -o $@
$(BUILD)/bin/pkb-simd: $(call objs,$(sim_main)) $(lib_sim) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $^ $(common_libs) -lseccomp -lzstd -lstdc++ -lm -o $@

# ---- the simulator's drop-in libraries ----

# Every call of the real libraries that ours have not is there too, and refuses by name.
$(BUILD)/sim/stubs_cuda.c: $(call objs,$(sim_cuda_src)) sim/stubs.sh
	sh sim/stubs.sh $(CUDA_HOME)/lib64/stubs/libcuda.so pkb_cuda_refuse $(filter %.o,$^) >$@.new && mv $@.new $@
$(BUILD)/sim/stubs_cudart.c: $(call objs,$(sim_cudart_src)) sim/stubs.sh
	sh sim/stubs.sh $(CUDA_HOME)/lib64/libcudart.so.13 runtime_refuse $(filter %.o,$^) >$@.new && mv $@.new $@
$(BUILD)/sim/stubs_nccl.c: $(call objs,$(sim_nccl_src)) sim/stubs.sh
	sh sim/stubs.sh $(CUDA_HOME)/lib64/libnccl.so.2 nccl_refuse_call $(filter %.o,$^) >$@.new && mv $@.new $@
$(BUILD)/sim/stubs_cublas.c: $(call objs,$(sim_cublas_src)) sim/stubs.sh
	sh sim/stubs.sh $(CUDA_HOME)/lib64/libcublas.so.13 blas_refuse_call $(filter %.o,$^) >$@.new && mv $@.new $@
$(BUILD)/sim/stubs_cublaslt.c: $(call objs,$(sim_cublaslt_src)) sim/stubs.sh
	sh sim/stubs.sh $(CUDA_HOME)/lib64/libcublasLt.so.13 blas_refuse_call $(filter %.o,$^) >$@.new && mv $@.new $@
$(BUILD)/lib/sim/libcuda.so.1: $(call objs,$(sim_cuda_src)) $(BUILD)/sim/stubs_cuda.c sim/libcuda.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=sim/libcuda.map $(filter %.o %.c,$^) -lpthread -ldl -o $@
$(BUILD)/lib/sim/libcudart.so.13: $(call objs,$(sim_cudart_src)) $(BUILD)/sim/stubs_cudart.c sim/libcudart.map $(BUILD)/lib/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-soname,libcudart.so.13 \
	    -Wl,--version-script=sim/libcudart.map $(filter %.o %.c,$^) $(BUILD)/lib/sim/libcuda.so.1 -lpthread -o $@

# The replacement libnccl is ordinary CUDA: it runs on the simulator and where ranks share a GPU.
$(BUILD)/sim/%.o: sim/%.cu sim/%.h
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo --no-compress -Xcompiler -fPIC,-fvisibility=hidden \
	    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] -c $< -o $@
$(BUILD)/lib/nccl/libnccl.so.2: $(call objs,$(sim_nccl_src)) $(BUILD)/sim/nccl_reduce.o $(BUILD)/sim/stubs_nccl.c sim/libnccl.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-soname,libnccl.so.2 -Wl,--version-script=sim/libnccl.map \
	    $(filter %.o %.c,$^) $(cuda_libs) -ldl -lpthread -lstdc++ -o $@
# cuBLAS contains a runtime of its own, so the simulator replaces it.
$(BUILD)/lib/sim/libcublasLt.so.13: $(call objs,$(sim_cublaslt_src)) $(BUILD)/sim/cublas_gemm.o $(BUILD)/sim/stubs_cublaslt.c sim/libcublaslt.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-soname,libcublasLt.so.13 -Wl,--version-script=sim/libcublaslt.map \
	    $(filter %.o %.c,$^) $(cuda_libs) -ldl -lstdc++ -o $@
$(BUILD)/lib/sim/libcublas.so.13: $(call objs,$(sim_cublas_src)) $(BUILD)/sim/stubs_cublas.c sim/libcublas.map $(BUILD)/lib/sim/libcublasLt.so.13
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIC -shared -Wl,-soname,libcublas.so.13 -Wl,--version-script=sim/libcublas.map \
	    $(filter %.o %.c,$^) $(BUILD)/lib/sim/libcublasLt.so.13 $(cuda_libs) -ldl -lstdc++ -o $@

# ---- tests ----

test_libs := $(lib_test) $(lib_worker) $(lib_server) $(lib_client) $(lib_sim) $(lib_tasks) $(lib_common)
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(test_libs)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(TEST_LDFLAGS) $< $(test_libs) -lcmocka -lmicrohttpd -lsqlite3 -lsodium -lzstd -luv \
	    -lseccomp $(cuda_libs) $(common_libs) -lstdc++ -lm -ldl -o $@

# What a test has beside its own file.
$(call objs,$(filter-out $(test_src),$(wildcard tests/*.c))): OBJ_CFLAGS = $(CUDA_CFLAGS)
$(BUILD)/tests/cuda_cases.o: tests/cuda_cases.cu tests/cuda_cases.h
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O2 -lineinfo --no-compress -I. -gencode arch=compute_90a,code=[sm_90a,compute_90a] -c $< -o $@
case_objs := $(call objs,tests/case_main.c tests/case_share.c tests/sim_session.c) $(BUILD)/tests/cuda_cases.o
$(BUILD)/tests/test_cuda_api: $(call objs,$(wildcard tests/cuda_cases_*.c))
$(BUILD)/tests/test_simd: $(call objs,$(wildcard tests/simd_cases_*.c) worker/await.c)
$(BUILD)/tests/test_cuda_api $(BUILD)/tests/test_simd: $(BUILD)/tests/%: $(BUILD)/tests/%.o $(case_objs) $(lib_common)
	$(CC) $(LDFLAGS) $(filter %.o,$^) $(lib_common) $(cuda_libs) -lcmocka $(common_libs) -lstdc++ -lm -o $@
# Our libnccl is tested even where the library path would lead to the real one.
library_libs := $(BUILD)/lib/nccl/libnccl.so.2 $(BUILD)/lib/sim/libcublas.so.13 $(BUILD)/lib/sim/libcublasLt.so.13
$(BUILD)/tests/test_libraries: $(BUILD)/tests/test_libraries.o $(case_objs) $(call objs,$(wildcard tests/library_cases_*.c)) $(lib_common) $(library_libs)
	$(CC) $(LDFLAGS) $(filter %.o,$^) $(lib_common) $(library_libs) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib/nccl' \
	    $(cuda_libs) -lcmocka $(common_libs) -lstdc++ -lm -o $@
# What the compiler makes of kernels of many kinds, plain and packed.
samples_flags := -std=c++17 -O3 -lineinfo -gencode arch=compute_90a,code=[sm_90a,compute_90a]
$(BUILD)/tests/samples.ptx $(BUILD)/tests/samples.o &: tests/fixtures/ptx/samples.cu
	@mkdir -p $(BUILD)/tests/keep
	$(NVCC) $(samples_flags) --no-compress --keep --keep-dir $(BUILD)/tests/keep -c $< -o $(BUILD)/tests/samples.o
	mv $(BUILD)/tests/keep/samples.ptx $(BUILD)/tests/samples.ptx
	@rm -rf $(BUILD)/tests/keep
$(BUILD)/tests/samples_packed.o: tests/fixtures/ptx/samples.cu
	@mkdir -p $(@D)
	$(NVCC) $(samples_flags) -c $< -o $@
# Run in the place of nvcc and of a rank.
$(BUILD)/tests/compiler $(BUILD)/tests/stay: $(BUILD)/tests/%: tests/attacks/%.c
	@mkdir -p $(@D)
	$(CC) $(filter-out $(SAN_FLAGS) -MMD -MP,$(CFLAGS)) $< -o $@
$(BUILD)/tests/test_attacks_compiler: | $(BUILD)/tests/compiler
$(BUILD)/tests/test_kill: | $(BUILD)/tests/stay
$(BUILD)/tests/test_ptx_samples: | $(BUILD)/tests/samples.ptx
$(BUILD)/tests/test_fatbin: | $(BUILD)/tests/samples.o $(BUILD)/tests/samples_packed.o
# The kernels of judge and ranks, where the simulator finds them.
$(BUILD)/tests/kernels_image.o: $(BUILD)/worker/kernels.fatbin
	@mkdir -p $(@D)
	objcopy -I binary -O elf64-x86-64 --rename-section .data=.nv_fatbin $< $@
$(BUILD)/tests/test_kernels: | $(BUILD)/tests/kernels_image.o
# A management library of a driver that is not here, beside what else pkb-judge loads.
$(BUILD)/tests/driver/libnvidia-ml.so.1: tests/fixtures/driver/nvml.c $(BUILD)/lib/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) -fPIC -shared $< -o $@
	ln -sf ../../lib/sim/libcuda.so.1 $(@D)/libcuda.so.1
$(BUILD)/tests/test_driver_events: | $(BUILD)/tests/driver/libnvidia-ml.so.1 $(BUILD)/bin/pkb-judge
# The kernel's log is read as if it had been overrun.
$(BUILD)/tests/test_xid: TEST_LDFLAGS = -Wl,--wrap=read
tests: $(tests) $(BUILD)/bench/bench $(BUILD)/bench/build ## build the test programs, for tests/run.sh

# Parsers of bytes from outside: test_fuzz replays the corpus, libFuzzer makes more of it. Who plays
# the simulator's clients also plays its clock.
fuzz_objs := $(call objs,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_ldflags := -Wl,--wrap=poll,--wrap=clock_gettime
fuzz_libs := $(lib_worker) $(lib_server) $(lib_sim) $(lib_tasks) $(lib_common)
$(fuzz_objs): OBJ_CFLAGS = $(CUDA_CFLAGS)
$(BUILD)/tests/test_fuzz: $(fuzz_objs)
$(BUILD)/tests/test_fuzz: TEST_LDFLAGS = $(fuzz_objs) $(fuzz_ldflags)
$(BUILD)/fuzz/pkb-fuzz: tests/fuzz/entry.c tests/fuzz/lines.c $(fuzz_objs) $(fuzz_libs)
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -fsanitize=fuzzer $(fuzz_ldflags) $^ \
	    -lmicrohttpd -lsqlite3 -lsodium -lzstd $(common_libs) -lstdc++ -lm -lpthread -o $@
SECONDS ?= 60
fuzz_make = $(MAKE) --no-print-directory BUILD=build-fuzz CC=clang \
    SAN_FLAGS='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined'
fuzz: ## FUZZ=name [SECONDS=n]: try a parser with bytes that libFuzzer makes
	@$(fuzz_make) build-fuzz/fuzz/pkb-fuzz
	@FUZZ=$(FUZZ) SECONDS=$(SECONDS) sh tests/fuzz/run.sh
fuzz-carry: ## build-fuzz/carry: all that tests/fuzz/long.sh needs, for a machine without compilers
	@$(fuzz_make) build-fuzz/fuzz/pkb-fuzz
	@sh tests/fuzz/carry.sh

# ---- how fast it is ----

# The flags of bench.cal and of the kernels are fixed, so that figures of different days compare.
$(BUILD)/bench/calibrate.o: tests/bench/calibrate.c tests/bench/calibrate.h
	@mkdir -p $(@D)
	$(CC) -std=gnu2x -O2 -I. -c $< -o $@
$(BUILD)/bench/bench.kernels.o: tests/bench/kernels.cu
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo --no-compress -gencode arch=compute_90a,code=[sm_90a,compute_90a] -c $< -o $@
$(BUILD)/bench/bench: tests/bench/main.c $(BUILD)/bench/calibrate.o $(lib_sim) $(lib_common) | $(BUILD)/bench/bench.kernels.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o %.a,$^) $(common_libs) -lzstd -lstdc++ -lm -o $@
$(BUILD)/bench/build: tests/bench/build.c $(lib_test) $(lib_worker) $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.c %.a,$^) -luv -lseccomp -lsodium $(common_libs) -lm -o $@
bench: ## [BENCH='NAME...']: how fast it is, a line each: name, value, unit; build/bench.json
	@$(MAKE) --no-print-directory $(parallel) all $(BUILD)/bench/bench $(BUILD)/bench/build
	@BUILD=$(BUILD) sh tests/bench/bench.sh $(BENCH)

# ---- what needs a GPU ----

gpu_programs := $(patsubst tests/gpu/kernels/%.cu,$(BUILD)/gpu/%,$(wildcard tests/gpu/kernels/*.cu))
$(BUILD)/gpu/%: tests/gpu/kernels/%.cu tests/gpu/differential.cuh
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo --no-compress --cudart shared -diag-suppress 177 \
	    -gencode arch=compute_90a,code=[sm_90a,compute_90a] $< -o $@
$(BUILD)/gpu/compare: tests/gpu/compare.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $< -lm -o $@
$(BUILD)/gpu/simulate: tests/gpu/simulate.c $(lib_test) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(filter %.c %.a,$^) $(common_libs) -o $@
$(BUILD)/gpu/sandbox_cost: tests/gpu/sandbox_cost.c $(lib_test) $(lib_worker) $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(filter %.c %.a,$^) -luv -lseccomp $(common_libs) -lm -o $@
# For machines where nothing can be installed: bubblewrap with its libraries.
$(BUILD)/gpu/bwrap/bwrap: tests/gpu/carry_bwrap.sh
	sh tests/gpu/carry_bwrap.sh $(@D)

# A kernel of a chosen length, and the same timed by a program of its own.
copy_turns := 1 10 60 300 1000 3000
timing_programs := $(patsubst %,$(BUILD)/timing/own.%,$(copy_turns))
$(BUILD)/timing/header: tests/gpu/header.c $(lib_tasks) $(lib_common)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(filter %.c %.a,$^) $(common_libs) -lm -o $@
$(BUILD)/timing/pkb_task.h: $(BUILD)/timing/header
	$< allreduce >$@
$(BUILD)/timing/copy.%.cu: tests/gpu/timing/copy.cu
	@mkdir -p $(@D)
	{ echo '#define TURNS $*'; cat $<; } >$@
$(BUILD)/timing/own.%: tests/gpu/timing/own.cu $(BUILD)/timing/copy.%.cu $(BUILD)/timing/pkb_task.h
	$(NVCC) -std=c++17 -O3 -I$(BUILD)/timing -Itasks -DSUBMISSION='"copy.$*.cu"' --cudart shared \
	    -diag-suppress 177 -gencode arch=compute_90a,code=[sm_90a,compute_90a] $< -o $@
.PRECIOUS: $(BUILD)/timing/copy.%.cu

# The products of the baselines against the best that cuBLAS can do. NCCL is never called.
gemm_tasks := $(shell awk '/^[0-9]/ { print $$1 }' tests/gpu/gemm.tsv)
gemm_programs := $(patsubst %,$(BUILD)/timing/gemm.%,$(gemm_tasks))
$(BUILD)/timing/%/pkb_task.h: $(BUILD)/timing/header
	@mkdir -p $(@D)
	$< $* >$@
$(gemm_programs): $(BUILD)/timing/gemm.%: tests/gpu/timing/gemm.cu $(BUILD)/timing/%/pkb_task.h | $(sim_libs)
	$(NVCC) -std=c++17 -O3 -I$(BUILD)/timing/$* -Itasks -I. --cudart shared -diag-suppress 177 \
	    -DBASELINE='"$(wildcard tasks/$*_*/baseline.cu)"' -DIS_TRANSPOSED=$(if $(filter 011,$*),1,0) \
	    -gencode arch=compute_90a,code=[sm_90a,compute_90a] $< -lcublas -lcublasLt \
	    -L$(BUILD)/lib/nccl -l:libnccl.so.2 -L$(CUDA_HOME)/lib64/stubs -lcuda -o $@
$(gemm_programs): $(wildcard tasks/*/baseline.cu)
.PRECIOUS: $(BUILD)/timing/%/pkb_task.h

gpu-programs: $(timing_programs) $(gemm_programs) $(gpu_programs) $(BUILD)/gpu/compare $(BUILD)/gpu/simulate \
    $(BUILD)/gpu/sandbox_cost $(BUILD)/gpu/bwrap/bwrap
# Those that the simulator is held to by what an H200 gave.
recorded-programs: $(addprefix $(BUILD)/gpu/,$(shell cat tests/gpu/records/check.txt) compare simulate)
check-gpu: all gpu-programs $(addprefix $(BUILD)/tests/test_,cuda_api libraries attacks) ## the checks that need a GPU, as a table
	@BUILD=$(BUILD) sh tests/gpu/check.sh

deps:
	@sh deploy/install-deps.sh

check: deps ## install what is missing, build, run every test that needs no GPU
	@$(MAKE) --no-print-directory $(parallel) all tests recorded-programs
	@BUILD=$(BUILD) sh tests/run.sh

check-all: deps ## the same, baselines and submissions in every world, all recorded kernels, the fuzz corpus under sanitizers
	@$(MAKE) --no-print-directory $(parallel) all tests gpu-programs
	@TESTS=all BUILD=$(BUILD) sh tests/run.sh

demo: deps ## install what is missing, build, judge a real CUDA kernel on four simulated ranks
	@$(MAKE) --no-print-directory $(parallel) all
	@BUILD=$(BUILD) sh deploy/demo.sh

lint: deps ## format, clang-tidy, cppcheck, folder boundaries, sizes, banned functions
	@BUILD=$(BUILD) sh tests/lint.sh

format: ## format every source in place
	@sh tests/lint.sh --fix

clean: ## remove what was built
	rm -rf build build-address build-thread build-fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 12

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

#!/usr/bin/env bash
# Record the reports that tests read: one .ncu-rep per program, under 300 kB each, into $OUT.
#
#     OUT=/tmp/reports bash record.sh
#
# Compiled in a folder of a plain name, for line tables name it.  Programs of several kernels give reports of
# several results.  Two reports lack what the reader needs: one has no counters of instructions, one no source.
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${OUT:?a folder for the reports}"
mkdir -p "$OUT"
ncu=$(command -v ncu || ls /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -1)
nvcc=$(command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | tail -1)
echo "ncu: $ncu; nvcc: $nvcc"
"$ncu" --version | tail -2
"$nvcc" --version | tail -2
build=/tmp/kernels
mkdir -p "$build" && cd "$build" || exit 1
cp "$here"/*.cu .

quiet="--clock-control none --cache-control none"
sections="--section SourceCounters --section MemoryWorkloadAnalysis_Tables --section LaunchStats"
pipe=l1tex__data_pipe_lsu_wavefronts_mem_shared
metrics=memory_l1_wavefronts_shared,memory_l1_wavefronts_shared_ideal
metrics+=,memory_l2_theoretical_sectors_global,memory_l2_theoretical_sectors_global_ideal
metrics+=,memory_l1_tag_requests_global,memory_access_type,memory_access_size_type,memory_type
metrics+=,inst_executed,thread_inst_executed,thread_inst_executed_true
metrics+=,$pipe.sum,${pipe}_op_ld.sum,${pipe}_op_st.sum,${pipe}_op_atom.sum,l1tex__data_pipe_lsu_wavefronts.sum
metrics+=,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
metrics+=,l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum,l1tex__data_bank_writes.sum,l1tex__data_bank_reads.sum
metrics+=,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
metrics+=,l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum,l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
metrics+=,l1tex__t_requests_pipe_lsu_mem_global_op_st.sum,smsp__inst_executed_op_ldgsts.sum
metrics+=,smsp__inst_executed_op_shared_ld.sum,smsp__inst_executed_op_shared_st.sum

record() { # name of the report, program, options
    name=$1 program=$2
    shift 2
    "$ncu" -f -o "$OUT/$name" $quiet "$@" "./$program" 2>&1 | tee "$OUT/$name.log" | tail -4
    ls -l "$OUT/$name.ncu-rep"
    "$ncu" --import "$OUT/$name.ncu-rep" --page source --csv --print-units base >"$OUT/$name.source.csv" 2>/dev/null
    "$ncu" --import "$OUT/$name.ncu-rep" --page raw --csv --print-units base >"$OUT/$name.raw.csv" 2>/dev/null
}

for program in transpose_naive transpose_fixed vector_pitch matrix_load async_copy; do
    "$nvcc" -arch=sm_90a -lineinfo -O3 -o $program $program.cu || exit 1
    "./$program"
    record $program $program $sections --metrics "$metrics" --import-source yes
    [ -s "$OUT/$program.ncu-rep" ] || record $program $program $sections --import-source yes
done
# What a reader must refuse, and a report of the default sections with all counters (as `--set full` users have).
record no_counters transpose_naive --section LaunchStats
record no_source transpose_naive --section SourceCounters
record full vector_pitch --set full --import-source yes
"$nvcc" -arch=sm_90a -O3 -o no_lines transpose_naive.cu
record no_lines no_lines --section SourceCounters --import-source yes
record no_results transpose_naive --kernel-name nothing_of_this_name --section SourceCounters
ls -l "$OUT"

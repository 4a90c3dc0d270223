# Follows the traffic of one NIC and writes R_AI and R_HAI x (1 + sent / total). When stopped, it restores both.
# port_xmit_data counts octets / 4.
root=${HOCKET_MLX5:-/sys/kernel/debug/mlx5}
devices=${HOCKET_PCI:-/sys/bus/pci/devices}

if [ $# -ne 1 ]; then
    echo "usage: $0 PCI_ADDRESS; NICs of this host: $(ls "$root" 2>/dev/null | tr '\n' ' ')" >&2
    exit 2
fi
params=$root/$1/cc_params
counter=$(echo "$devices/$1/infiniband"/*/ports/1/counters/port_xmit_data)
if [ ! -w "$params/rp_ai_rate" ] || [ ! -r "$counter" ]; then
    echo "$1: no such mlx5 NIC with RDMA, no debugfs, or not root" >&2
    exit 2
fi
ai=$(cat "$params/rp_ai_rate")
hai=$(cat "$params/rp_hai_rate")
restore() {
    echo "$ai" > "$params/rp_ai_rate"
    echo "$hai" > "$params/rp_hai_rate"
}
trap restore EXIT
# A shell that a signal ends may not run its EXIT trap, so signals become exits.
trap 'exit 130' INT
trap 'exit 143' TERM

before=$(cat "$counter")
sent=0
quiet=0
written=$ai
while sleep "$sample_s"; do
    now=$(cat "$counter")
    new=$(((now - before) * 4))
    before=$now
    if [ "$new" -lt "$quiet_bytes" ]; then
        quiet=$((quiet + 1))
        if [ "$quiet" -ge "$quiet_samples" ]; then sent=0; fi
    else
        quiet=0
        sent=$((sent + new))
        if [ "$sent" -gt "$total_bytes" ]; then sent=$total_bytes; fi
    fi
    rate=$((ai + ai * sent / total_bytes))
    # Each write is a command to the NIC's firmware, so values that stay are not written again.
    if [ "$rate" -ne "$written" ]; then
        echo "$rate" > "$params/rp_ai_rate"
        echo $((hai + hai * sent / total_bytes)) > "$params/rp_hai_rate"
        written=$rate
    fi
done

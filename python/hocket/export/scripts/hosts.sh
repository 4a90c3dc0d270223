# A NIC that trusts DSCP takes the class of packets from it, both sent and received. The old trust is saved.
kept=${HOCKET_KEPT:-/var/lib/hocket/qos}
verb=${1:-}
if [ $# -lt 2 ] || { [ "$verb" != apply ] && [ "$verb" != undo ]; }; then
    echo "usage: $0 apply|undo INTERFACE..." >&2
    exit 2
fi
shift
mkdir -p "$kept"
for interface in "$@"; do
    if [ "$verb" = apply ]; then
        if [ ! -e "$kept/$interface" ]; then
            mlnx_qos -i "$interface" | sed -n 's/^Priority trust state: *//p' > "$kept/$interface"
        fi
        mlnx_qos -i "$interface" --trust=dscp
        for pair in $pairs; do mlnx_qos -i "$interface" --dscp2prio="set,$pair"; done
    else
        if [ ! -e "$kept/$interface" ]; then
            echo "$kept/$interface: no such file: nothing to undo for this interface" >&2
            exit 2
        fi
        for pair in $pairs; do mlnx_qos -i "$interface" --dscp2prio="del,$pair"; done
        mlnx_qos -i "$interface" --trust="$(cat "$kept/$interface")"
        rm "$kept/$interface"
    fi
done

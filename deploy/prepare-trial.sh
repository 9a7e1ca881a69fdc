#!/usr/bin/env bash
# Certificates and passwords for a trial of compose.yaml on one machine; for real use, those of your own authority.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
mkdir -p secrets/certs
cd secrets/certs
openssl req -x509 -newkey rsa:3072 -nodes -days 30 -subj "/CN=gaussveil trial" -keyout ca.key -out ca.pem
for name in broker studio; do
    openssl req -newkey rsa:3072 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\n' "$name" > "$name.ext"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile "$name.ext" -out "$name.pem"
done
cd ..
# Passwords stand in files alone: everybody on a machine sees the words of a command line.
: > passwords
for user in gateway analyst meter-1; do
    openssl rand -hex 16 > "${user}_password"
    printf '%s:%s\n' "$user" "$(< "${user}_password")" >> passwords
    printf -- '-u %s\n-P %s\n' "$user" "$(< "${user}_password")" > "${user}_options" # of mosquitto_pub and mosquitto_sub
done
mosquitto_passwd -U passwords
openssl rand -hex 16 > studio_password
# The containers run as others than you: the gateway and the studio as 10001, the broker as 1883.
if [ "$(id -u)" = 0 ]; then
    chown 10001 gateway_password studio_password certs/studio.key certs/studio.pem
    chown 1883 passwords certs/broker.key certs/broker.pem
    chmod 0755 . certs
    chmod 0644 certs/ca.pem analyst_options
fi

